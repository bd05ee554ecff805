SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
SET 'table.optimizer.distinct-agg.split.enabled' = 'true';
SET 'table.optimizer.distinct-agg.split.bucket-num' = '4';
SET 'table.optimizer.incremental-agg-enabled' = 'false';
CREATE TABLE r (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/r.json', 'format'='debezium-json');
CREATE TABLE snk (x0 INT, x1 BIGINT, x2 STRING, x3 DOUBLE) WITH ('connector'='print');
INSERT INTO snk SELECT a, COUNT(DISTINCT b), MAX(c), MIN(d) FROM r GROUP BY a;
