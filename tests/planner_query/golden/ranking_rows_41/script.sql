CREATE TABLE r (a INT, b BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/ranking_41_r.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, ts TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT a, b, ts FROM r ORDER BY ts;
