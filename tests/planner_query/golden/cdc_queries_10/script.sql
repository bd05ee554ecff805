CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE bh (id INT, g STRING, v INT) WITH ('connector'='blackhole');
INSERT INTO bh SELECT id, g, v FROM dbz WHERE id > 1;
