SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';
SET 'table.optimizer.distinct-agg.split.enabled' = 'true';
SET 'table.optimizer.incremental-agg-enabled' = 'false';
SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 BIGINT, x1 INT, x2 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT COUNT(DISTINCT b), a, FIRST_VALUE(c) FROM t GROUP BY a;
