CREATE TABLE e2 (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem','path'='${DIR}/e2.json','format'='json');
CREATE TABLE snk (a INT, c STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a, c FROM e2 WHERE b > 3;
