CREATE TABLE e (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/e.json','format'='json');
CREATE TABLE e2 (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem','path'='${DIR}/e2.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, ts TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT x.a, SUM(x.b), MAX(y.ts) FROM e AS x JOIN e2 AS y ON x.a = y.a AND x.ts >= y.ts GROUP BY x.a;
