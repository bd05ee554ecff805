CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE upk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/upk.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE pj (id INT, g STRING, v INT, h STRING) WITH ('connector'='print');
INSERT INTO pj SELECT a.id, a.g, a.v, b.g FROM ups a JOIN upk b ON a.id = b.id WHERE a.v > 1 AND b.v < 5;
