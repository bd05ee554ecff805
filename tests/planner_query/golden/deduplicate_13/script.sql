CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (k INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT k + 1, b FROM (SELECT a AS k, b * 2 AS b, ROW_NUMBER() OVER (PARTITION BY a, UPPER(c) ORDER BY pt) AS rn FROM p) WHERE rn = 1;
