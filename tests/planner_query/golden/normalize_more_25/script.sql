CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE pr (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO pr SELECT id, g, v FROM (SELECT *, id + 1 AS x FROM ups) WHERE x > 3 AND v > 2;
