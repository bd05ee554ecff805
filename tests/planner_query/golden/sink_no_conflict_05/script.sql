CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE prk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO prk SELECT id, g, v FROM app;
