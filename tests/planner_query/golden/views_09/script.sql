CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, y STRING) WITH ('connector'='print');
INSERT INTO snk SELECT p.a, q.c FROM p JOIN p q ON p.a = q.a2;
