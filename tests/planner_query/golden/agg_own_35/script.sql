SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 INT, x2 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT x.a, y.a, x.n FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) x LEFT JOIN (SELECT a, MAX(b) AS m FROM u GROUP BY a) y ON x.a = y.a;
