SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 DOUBLE, x2 DOUBLE, x3 DOUBLE) WITH ('connector'='print');
INSERT INTO snk SELECT a, STDDEV_SAMP(d), VAR_POP(d), SUM(d) / COUNT(d) FROM t GROUP BY a;
