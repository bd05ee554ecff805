CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, x BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY pt ASC) AS rn FROM (SELECT a, b, pt FROM p WHERE a > 1)) WHERE rn = 1;
