CREATE TABLE oj (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/oj.json', 'format'='ogg-json');
CREATE TABLE fm (id INT, g STRING, v INT) WITH ('connector'='filesystem','path'='${DIR}/out','format'='maxwell-json');
INSERT INTO fm SELECT id, g, v FROM oj;
