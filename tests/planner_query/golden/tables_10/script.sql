CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, c AS a + 1, m STRING METADATA VIRTUAL) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM t;
