CREATE TABLE enn (a INT, ts TIMESTAMP(3) NOT NULL, pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem','path'='${DIR}/enn.json','format'='json');
CREATE TABLE snk (a INT, ts TIMESTAMP(3), pt TIMESTAMP_LTZ(3)) WITH ('connector'='print');
INSERT INTO snk SELECT a, ts, pt FROM enn WHERE a <> 2;
