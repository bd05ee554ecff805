CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME()) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, COUNT(*) FROM (SELECT a, b FROM p ORDER BY pt LIMIT 5) GROUP BY a;
