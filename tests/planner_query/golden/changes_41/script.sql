CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE s (id INT, g STRING, v INT, w INT) WITH ('connector'='print');
INSERT INTO s SELECT x.id, x.g, x.v, y.v FROM app x LEFT JOIN ups y ON x.g = y.g;
