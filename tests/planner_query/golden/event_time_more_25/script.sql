CREATE TABLE e (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/e.json','format'='json');
CREATE TABLE e2 (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem','path'='${DIR}/e2.json','format'='json');
CREATE TABLE snk (a INT, x TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT a, MAX(ts) FROM (SELECT a, ts FROM e UNION ALL SELECT a, ts FROM e2) GROUP BY a;
