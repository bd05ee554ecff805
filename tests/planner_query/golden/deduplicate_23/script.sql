CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, pt TIMESTAMP_LTZ(3)) WITH ('connector'='print');
INSERT INTO snk SELECT a, pt FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY pt ASC) AS rn FROM p) WHERE rn = 1;
