CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, c BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM (SELECT a, b, c, ROW_NUMBER() OVER w AS rn FROM p WINDOW w AS (PARTITION BY a ORDER BY pt DESC)) WHERE rn = 1 AND c = 'x';
