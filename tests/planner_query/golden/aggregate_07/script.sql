CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, c STRING, x DOUBLE, y DOUBLE, z BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b, c, AVG(d), SUM(d), COUNT(d) FROM t GROUP BY a, b, c;
