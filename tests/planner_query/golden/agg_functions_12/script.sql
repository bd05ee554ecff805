CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 DECIMAL(38, 6), x2 DECIMAL(38, 6), x3 DECIMAL(38, 6), x4 DECIMAL(38, 6)) WITH ('connector'='print');
INSERT INTO snk SELECT a, VAR_POP(e), VAR_SAMP(e), STDDEV_POP(e), STDDEV_SAMP(e) FROM t GROUP BY a;
