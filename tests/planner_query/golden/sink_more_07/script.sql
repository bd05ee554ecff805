SET 'table.exec.sink.upsert-materialize' = 'FORCE';
CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE prg (id INT, g STRING, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO prg SELECT id, g, v FROM app;
