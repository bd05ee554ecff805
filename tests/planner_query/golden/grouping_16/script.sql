CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (y BIGINT, z STRING, x INT) WITH ('connector'='print');
INSERT INTO snk SELECT b, MAX(c), a FROM t GROUP BY a, b;
