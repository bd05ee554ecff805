CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE pr (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO pr SELECT id, g, v FROM ups WHERE v IN (1, 2, 3);
