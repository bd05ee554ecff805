CREATE TABLE el (a INT, b BIGINT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH ('connector'='filesystem','path'='${DIR}/el.json','format'='json');
CREATE TABLE snk (a INT, s STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a, CAST(ts AS STRING) FROM el WHERE ts > TO_TIMESTAMP_LTZ(0, 3);
