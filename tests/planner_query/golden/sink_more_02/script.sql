CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE fd (id INT, g STRING, v INT) WITH ('connector'='filesystem','path'='${DIR}/out','format'='debezium-json');
INSERT INTO fd SELECT id, g, v FROM ups;
