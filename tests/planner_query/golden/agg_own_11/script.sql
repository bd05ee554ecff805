SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
CREATE TABLE n (id INT, xs ARRAY<INT>, rs ARRAY<ROW<k INT, v STRING>>, m MAP<STRING, INT>, ss ARRAY<STRING>, arr2 ARRAY<ARRAY<INT>>) WITH ('connector'='filesystem', 'path'='${DIR}/n.json', 'format'='json');
CREATE TABLE snk (x0 BIGINT, x1 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT x, COUNT(*) FROM (SELECT CAST(x AS BIGINT) AS x FROM n CROSS JOIN UNNEST(xs) AS T(x)) GROUP BY x;
