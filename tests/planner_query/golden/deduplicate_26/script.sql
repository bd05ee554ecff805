CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (x BIGINT, c BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a2, COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a2 ORDER BY pt ASC) AS rn FROM p) WHERE rn = 1 GROUP BY a2;
