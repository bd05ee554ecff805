CREATE TABLE enn (a INT, ts TIMESTAMP(3) NOT NULL, pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem','path'='${DIR}/enn.json','format'='json');
CREATE TABLE snk (a BIGINT, ts TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT a, ts FROM enn;
