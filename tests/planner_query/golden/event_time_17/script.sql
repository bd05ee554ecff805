CREATE TABLE e (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/e.json','format'='json');
CREATE TABLE e2 (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem','path'='${DIR}/e2.json','format'='json');
CREATE TABLE snk (a INT, ts TIMESTAMP(3), ts2 TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT e.a, e.ts, e2.ts FROM e LEFT JOIN e2 ON e.a = e2.a AND e.b > e2.b;
