CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (x INT, y BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, MAX(s) FROM (SELECT a, c, SUM(b) AS s FROM t WHERE b > 0 GROUP BY a, c) GROUP BY a;
