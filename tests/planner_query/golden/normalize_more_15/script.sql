CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE p1 (g STRING) WITH ('connector'='print');
INSERT INTO p1 SELECT DISTINCT g FROM ups;
