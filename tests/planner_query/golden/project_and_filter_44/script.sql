CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, c STRING, pt TIMESTAMP_LTZ(3), a2 INT) WITH ('connector'='print');
INSERT INTO snk SELECT * FROM p;
