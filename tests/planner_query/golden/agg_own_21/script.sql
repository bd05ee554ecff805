SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
SET 'table.optimizer.distinct-agg.split.enabled' = 'true';
CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 BIGINT, x1 BIGINT, x2 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT COUNT(DISTINCT a), COUNT(DISTINCT b), MAX(b) FROM t WHERE d IS NOT NULL;
