CREATE TABLE p (a INT, b BIGINT, c STRING, pt AS PROCTIME(), a2 AS a * 2) WITH ('connector'='filesystem','path'='${DIR}/p.json','format'='json');
CREATE TABLE snk (pt TIMESTAMP_LTZ(3), c BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT pt, COUNT(*) FROM p GROUP BY pt;
