-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ukd (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ukd.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM ukd;
