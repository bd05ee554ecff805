CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, c BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b2, b3 FROM (SELECT a, b * 2 + 1 AS b3, b * 2 AS b2, ROW_NUMBER() OVER (PARTITION BY b * 2 ORDER BY pt) AS rn FROM p) WHERE rn = 1;
