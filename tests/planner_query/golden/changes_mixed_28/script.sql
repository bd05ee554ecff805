CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE s (g STRING, n BIGINT, m INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/o','format'='maxwell-json');
INSERT INTO s SELECT g, COUNT(*), SUM(v) FROM ups GROUP BY g;
