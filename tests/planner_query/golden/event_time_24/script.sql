CREATE TABLE el (a INT, b BIGINT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH ('connector'='filesystem','path'='${DIR}/el.json','format'='json');
CREATE TABLE snk (a INT, ts TIMESTAMP_LTZ(3), w TIMESTAMP_LTZ(3)) WITH ('connector'='print');
INSERT INTO snk SELECT a, ts, CURRENT_WATERMARK(ts) FROM el;
