CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE bh (id INT, g STRING, v INT) WITH ('connector'='blackhole');
INSERT INTO bh SELECT id, g, v FROM ups WHERE CURRENT_TIMESTAMP > TIMESTAMP '2020-01-01 00:00:00';
