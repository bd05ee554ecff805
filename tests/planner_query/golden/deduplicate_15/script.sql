CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (k INT, b BIGINT, c STRING, pt TIMESTAMP_LTZ(3), a2 INT, rn BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY pt DESC) AS rn FROM p) WHERE rn = 1;
