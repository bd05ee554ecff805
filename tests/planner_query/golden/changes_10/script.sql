CREATE TABLE npk (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/npk.json', 'format'='debezium-json');
CREATE TABLE s (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO s SELECT id, g, v + 1 FROM npk WHERE id > 3;
