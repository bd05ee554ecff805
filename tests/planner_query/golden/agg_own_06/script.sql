CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 STRING, x2 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, c, b FROM (SELECT a, c, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS rn FROM (SELECT a, c, SUM(b) AS b FROM t GROUP BY a, c)) WHERE rn <= 2;
