CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE s (n BIGINT, m INT) WITH ('connector'='print');
INSERT INTO s SELECT COUNT(*), SUM(v) FROM ups;
