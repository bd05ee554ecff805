CREATE TABLE up2 (id INT, g STRING, v INT, PRIMARY KEY (g, id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/up2.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE pi (id INT) WITH ('connector'='print');
INSERT INTO pi SELECT v FROM up2 WHERE id = 1 AND g > 'b';
