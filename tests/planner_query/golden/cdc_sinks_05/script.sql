CREATE TABLE ret (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ret.json', 'format'='op-json', 'op-json.mode'='retract');
CREATE TABLE bh (id INT, g STRING, v INT) WITH ('connector'='blackhole');
INSERT INTO bh SELECT id, g, v FROM ret;
