CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE pi (id INT) WITH ('connector'='print');
INSERT INTO pi SELECT id FROM ups WHERE id > 3;
