SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '10';
CREATE TABLE r (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/r.json','format'='json');
CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT x.a, t.b FROM (SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY ts) AS rn FROM r) WHERE rn = 1) x JOIN t ON x.a = t.a;
