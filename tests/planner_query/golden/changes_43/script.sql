CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE can (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/can.json', 'format'='canal-json');
CREATE TABLE s (id INT, g STRING, v INT, w INT) WITH ('connector'='print');
INSERT INTO s SELECT x.id, x.g, x.v, y.v FROM dbz x LEFT JOIN can y ON x.g = y.g;
