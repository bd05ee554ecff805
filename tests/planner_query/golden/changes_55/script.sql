-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
SET 'table.exec.source.cdc-events-duplicate' = 'true';
CREATE TABLE ret (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ret.json', 'format'='op-json', 'op-json.mode'='retract');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM ret WHERE v > 3;
