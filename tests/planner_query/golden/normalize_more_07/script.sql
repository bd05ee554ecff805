CREATE TABLE up2 (id INT, g STRING, v INT, PRIMARY KEY (g, id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/up2.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE pr (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO pr SELECT id, g, v FROM up2 WHERE id > 3 AND v > 1;
