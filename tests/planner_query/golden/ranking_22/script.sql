CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME()) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, MAX(b) FROM (SELECT a, b, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a, c ORDER BY pt DESC) AS r1 FROM p) WHERE r1 = 1) GROUP BY a;
