CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (x INT, z INT, w INT) WITH ('connector'='print');
INSERT INTO snk SELECT t1.a, t2.a, t3.a FROM t t1, t t2, t t3 WHERE t1.a = t2.a AND t2.a = t3.a AND t3.b > 3;
