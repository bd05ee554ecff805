CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 BIGINT, x1 DOUBLE, x2 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT b, FIRST_VALUE(d), LAST_VALUE(c) FROM (SELECT a, MAX(b) AS b, MIN(d) AS d, LAST_VALUE(c) AS c FROM t GROUP BY a) GROUP BY b;
