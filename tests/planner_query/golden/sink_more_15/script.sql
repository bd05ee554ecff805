CREATE TABLE mj (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/mj.json', 'format'='maxwell-json');
CREATE TABLE fo (id INT, g STRING, v INT) WITH ('connector'='filesystem','path'='${DIR}/out','format'='ogg-json');
INSERT INTO fo SELECT id, g, v FROM mj;
