CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE s (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO s SELECT id, g, v FROM ups UNION ALL SELECT id, g, v FROM app;
