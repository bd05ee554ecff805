CREATE TABLE src (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='json');
CREATE TABLE snk (a INT, b BIGINT, c STRING, d INT) WITH ('connector'='print');
INSERT INTO snk (b, a) SELECT b, a FROM src;
