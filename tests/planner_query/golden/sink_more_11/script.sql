CREATE TABLE cj (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/cj.json', 'format'='canal-json');
CREATE TABLE fc (id INT, g STRING, v INT) WITH ('connector'='filesystem','path'='${DIR}/out','format'='canal-json');
INSERT INTO fc SELECT id, g, v FROM cj;
