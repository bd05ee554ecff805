CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk WITH w AS (SELECT a, SUM(b) AS b FROM t GROUP BY a) SELECT w.a, z.b FROM w JOIN w AS z ON w.a = z.a;
