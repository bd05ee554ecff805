CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, SUM(b) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a, b ORDER BY pt DESC) AS rn FROM p WHERE b > 0) WHERE rn = 1 GROUP BY a;
