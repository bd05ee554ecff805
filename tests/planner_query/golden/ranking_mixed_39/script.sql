CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME()) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM p WHERE b > 3 ORDER BY pt, c DESC;
