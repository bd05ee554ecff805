CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (x DECIMAL(20,4), y DOUBLE, z INT) WITH ('connector'='print');
INSERT INTO snk SELECT e * 2, d / 3, a / 2 FROM t;
