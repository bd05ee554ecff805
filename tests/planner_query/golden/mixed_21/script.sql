CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, bb BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT k, bb FROM (SELECT a AS k, b AS bb, ROW_NUMBER() OVER (PARTITION BY a ORDER BY pt) AS rn FROM p) WHERE rn = 1 AND bb > 2;
