CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE ukd (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ukd.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE s (id INT, g STRING, v INT, w INT) WITH ('connector'='print');
INSERT INTO s SELECT x.id, x.g, x.v, y.v FROM ukd x LEFT JOIN ups y ON x.g = y.g;
