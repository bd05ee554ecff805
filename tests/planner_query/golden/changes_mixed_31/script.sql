-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ukd (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ukd.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE s (m INT, n BIGINT, g STRING, PRIMARY KEY (m) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT m, COUNT(*), MIN(g) FROM (SELECT g, MAX(v) AS m FROM ukd GROUP BY g) GROUP BY m;
