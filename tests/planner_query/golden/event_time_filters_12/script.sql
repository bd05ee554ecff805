CREATE TABLE e (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/e.json','format'='json');
CREATE TABLE snk (a INT, ts TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT a, COALESCE(ts, TIMESTAMP '2024-01-01 00:00:00.000') FROM e;
