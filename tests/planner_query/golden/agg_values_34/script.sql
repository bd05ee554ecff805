CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT t.a, t.c FROM t JOIN (SELECT a FROM u WHERE FALSE) x ON t.a = x.a;
