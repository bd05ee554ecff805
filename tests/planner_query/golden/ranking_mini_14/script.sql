SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '10';
CREATE TABLE r (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/r.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM r ORDER BY ts;
