SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '10';
CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME()) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY b DESC) AS rn FROM (SELECT a, b, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY pt DESC) AS r1 FROM p) WHERE r1 = 1)) WHERE rn <= 2;
