CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE snk (x INT, y STRING) WITH ('connector'='print');
INSERT INTO snk SELECT * FROM (SELECT t.a, u.y FROM t JOIN u ON t.a = u.a) WHERE a > 5;
