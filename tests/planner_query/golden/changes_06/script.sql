CREATE TABLE ret (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ret.json', 'format'='op-json', 'op-json.mode'='retract');
CREATE TABLE s (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO s SELECT id, g, v + 1 FROM ret WHERE id > 3;
