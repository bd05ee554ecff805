-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
SET 'table.exec.sink.upsert-materialize-strategy.type' = 'MAP';
CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM ups ON CONFLICT DO DEDUPLICATE;
