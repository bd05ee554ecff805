CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE fdg (id INT, g STRING, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/out','format'='debezium-json');
INSERT INTO fdg SELECT id, g, v FROM dbz;
