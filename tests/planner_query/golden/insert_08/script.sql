CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (x INT, y STRING, z INT) WITH ('connector'='print');
INSERT INTO snk(x, y, z) SELECT * FROM (SELECT a, c, a AS b FROM t) UNION ALL SELECT a, c, 3 FROM t;
