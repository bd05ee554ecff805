CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE fdg (id INT, g STRING, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/out','format'='debezium-json');
INSERT INTO fdg SELECT id, g, v FROM app;
