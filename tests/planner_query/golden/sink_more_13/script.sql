CREATE TABLE oj (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/oj.json', 'format'='ogg-json');
CREATE TABLE prk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO prk SELECT id, g, v FROM oj;
