CREATE TABLE ret (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ret.json', 'format'='op-json', 'op-json.mode'='retract');
CREATE TABLE bhk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='blackhole');
INSERT INTO bhk SELECT id, g, v FROM ret;
