CREATE TABLE src (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='json');
CREATE TABLE snk (a INT, b BIGINT METADATA VIRTUAL, c STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a, c FROM src;
