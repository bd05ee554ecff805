CREATE TABLE ew (a INT, b BIGINT, ts TIMESTAMP(3), x TIMESTAMP(3), WATERMARK FOR ts AS CASE WHEN a > 0 THEN ts - INTERVAL '5' SECOND ELSE x END) WITH ('connector'='filesystem','path'='${DIR}/ew.json','format'='json');
CREATE TABLE snk (b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT b FROM ew;
