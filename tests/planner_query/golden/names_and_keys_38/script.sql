CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a DECIMAL(10,3), b DOUBLE) WITH ('connector'='print');
INSERT INTO snk SELECT 1.5 * 2.25, CAST(1 AS DOUBLE) / 3 FROM t;
