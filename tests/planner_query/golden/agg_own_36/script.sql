CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 ARRAY<BIGINT>, x2 ARRAY<STRING>) WITH ('connector'='print');
INSERT INTO snk SELECT a, ARRAY_AGG(b) FILTER (WHERE b > 1), ARRAY_AGG(DISTINCT UPPER(c)) FROM t GROUP BY a;
