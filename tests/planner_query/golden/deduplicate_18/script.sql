CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY c ORDER BY pt) AS rn FROM p WHERE b > 3) WHERE rn = 1 AND a > 4;
