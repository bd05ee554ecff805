CREATE TABLE el2 (a INT, n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem','path'='${DIR}/el2.json','format'='json');
CREATE TABLE snk (a INT, ts TIMESTAMP_LTZ(3)) WITH ('connector'='print');
INSERT INTO snk SELECT a, ts FROM el2 WHERE a > 1;
