CREATE TABLE up2 (id INT, g STRING, v INT, PRIMARY KEY (g, id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/up2.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE p1 (g STRING) WITH ('connector'='print');
INSERT INTO p1 SELECT g FROM up2 WHERE v > 1 AND g > 'b';
