CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE snk (a INT, b BIGINT, c STRING, d INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO snk (a, d) SELECT id, v FROM dbz;
