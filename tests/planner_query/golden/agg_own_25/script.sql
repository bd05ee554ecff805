SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 TIMESTAMP(3), x1 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT FLOOR(f TO DAY), COUNT(*) FROM t GROUP BY FLOOR(f TO DAY);
