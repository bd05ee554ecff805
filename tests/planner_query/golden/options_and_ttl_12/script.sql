SET 'table.exec.deduplicate.insert-update-after-sensitive-enabled' = 'false';
SET 'table.exec.deduplicate.mini-batch.compact-changes-enabled' = 'true';
CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY pt DESC) AS rn FROM p) WHERE rn = 1;
