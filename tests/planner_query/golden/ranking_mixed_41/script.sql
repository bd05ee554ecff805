CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME()) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY q DESC) AS rn FROM (SELECT a, MAX(b) AS b, PROCTIME() AS q FROM p GROUP BY a)) WHERE rn = 1;
