CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, bb BIGINT, rn BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, bb, rn FROM (SELECT a, b * 2 AS bb, ROW_NUMBER() OVER (PARTITION BY a ORDER BY pt) AS rn FROM p) WHERE rn = 1;
