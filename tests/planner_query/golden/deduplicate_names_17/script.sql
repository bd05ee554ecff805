CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT q.a, u.x FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY pt DESC) AS rn FROM p) q JOIN u ON q.a = u.a AND q.rn = 1;
