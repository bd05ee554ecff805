SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
SET 'table.optimizer.distinct-agg.split.enabled' = 'true';
SET 'table.optimizer.distinct-agg.split.bucket-num' = '4';
CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 BIGINT, x2 BIGINT, x3 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, COUNT(DISTINCT b) FILTER (WHERE g), COUNT(DISTINCT c) FILTER (WHERE g), COUNT(DISTINCT c) FROM t GROUP BY a;
