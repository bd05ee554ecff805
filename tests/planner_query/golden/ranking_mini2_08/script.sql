SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '10';
CREATE TABLE r (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/r.json','format'='json');
CREATE TABLE snk (b BIGINT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT b, COUNT(*) FROM (SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY ts DESC) AS rn FROM r) WHERE rn = 1) GROUP BY b;
