SET 'table.exec.source.cdc-events-duplicate' = 'true';
CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE pr (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO pr SELECT id, g, v FROM app;
