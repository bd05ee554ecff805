SET 'table.exec.state.ttl' = '2 h';
CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE p2 (g STRING, c BIGINT) WITH ('connector'='print');
INSERT INTO p2 SELECT g, MAX(v) FROM ups GROUP BY g;
