CREATE TABLE up2 (id INT, g STRING, v INT, PRIMARY KEY (g, id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/up2.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE piv (id INT, v INT) WITH ('connector'='print');
INSERT INTO piv SELECT id, v FROM up2;
