CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE bhk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='blackhole');
INSERT INTO bhk SELECT id, g, v FROM app;
