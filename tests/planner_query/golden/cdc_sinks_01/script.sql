CREATE TABLE ret (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ret.json', 'format'='op-json', 'op-json.mode'='retract');
CREATE TABLE prk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO prk SELECT id, g, v FROM ret;
