CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (x INT, y TIMESTAMP_LTZ(3)) WITH ('connector'='print');
INSERT INTO snk SELECT a2, pt FROM p WHERE a2 > 4;
