CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE piv (id INT, v INT) WITH ('connector'='print');
INSERT INTO piv SELECT id, v + 1 FROM ups WHERE v > 3 AND g LIKE 'a%';
