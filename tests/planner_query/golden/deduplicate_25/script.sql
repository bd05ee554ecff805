CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (x BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT b FROM (SELECT b, ROW_NUMBER() OVER (ORDER BY pt ASC) AS rn FROM p) WHERE rn = 1;
