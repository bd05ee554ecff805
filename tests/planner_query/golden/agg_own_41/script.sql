SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
CREATE TABLE r (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/r.json', 'format'='debezium-json');
CREATE TABLE snk (x0 BIGINT, x1 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT n, COUNT(*) FROM (SELECT DISTINCT a, c, COUNT(*) AS n FROM r GROUP BY a, c) GROUP BY n;
