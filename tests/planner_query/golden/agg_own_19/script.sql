CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 STRING, x2 BOOLEAN, x3 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, c, g, SUM(b) FROM t GROUP BY GROUPING SETS ((a, c, g), (a, c), (a), ()) HAVING SUM(b) > 3;
