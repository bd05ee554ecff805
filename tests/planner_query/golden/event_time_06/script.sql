CREATE TABLE ec (a INT, s STRING, n BIGINT, ts AS TO_TIMESTAMP(s), d AS a + 1, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem','path'='${DIR}/ec.json','format'='json');
CREATE TABLE snk (a INT, ts TIMESTAMP(3), d INT) WITH ('connector'='print');
INSERT INTO snk SELECT a, ts, d FROM ec WHERE n > 1;
