CREATE TABLE e (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/e.json','format'='json');
CREATE VIEW ve AS SELECT a, b, ts, UPPER(c) AS u FROM e WHERE b > 1;
CREATE TABLE snk (u STRING, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT u, COUNT(*) FROM ve GROUP BY u;
