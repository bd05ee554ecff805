CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE pj (id INT, g STRING, v INT, h STRING) WITH ('connector'='print');
INSERT INTO pj SELECT a.id, a.g, a.v, b.g FROM ups a JOIN ups b ON a.id = b.v;
