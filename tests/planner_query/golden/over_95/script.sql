SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '2 s';
SET 'table.exec.mini-batch.size' = '100';
CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE kg (g STRING, x BIGINT) WITH ('connector'='print');
INSERT INTO kg SELECT g, MAX(x) FROM (SELECT g, SUM(v) OVER (PARTITION BY g ORDER BY pt) AS x FROM u) GROUP BY g;
