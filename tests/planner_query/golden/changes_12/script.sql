CREATE TABLE can (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/can.json', 'format'='canal-json');
CREATE TABLE s (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO s SELECT id, g, v + 1 FROM can WHERE id > 3;
