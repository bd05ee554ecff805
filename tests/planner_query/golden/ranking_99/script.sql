CREATE TABLE r (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/r.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, ts TIMESTAMP(3), rn BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b, ts, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY ts) AS rn FROM r) WHERE rn <= 2;
