CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id, g) NOT ENFORCED) PARTITIONED BY (g) WITH ('connector'='print');
INSERT INTO s PARTITION (g = 'x') SELECT id, v FROM ups;
