CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 STRING, x2 STRING, x3 DOUBLE, x4 TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT a, FIRST_VALUE(c) FILTER (WHERE g), LAST_VALUE(c) FILTER (WHERE g), LAST_VALUE(d), FIRST_VALUE(f) FROM t GROUP BY a HAVING COUNT(*) > 1;
