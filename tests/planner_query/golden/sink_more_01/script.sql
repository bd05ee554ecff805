CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE fd (id INT, g STRING, v INT) WITH ('connector'='filesystem','path'='${DIR}/out','format'='debezium-json');
INSERT INTO fd SELECT id, g, v FROM dbz;
