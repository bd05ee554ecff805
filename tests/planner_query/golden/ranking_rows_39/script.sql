CREATE TABLE r (a INT, b BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/ranking_39_r.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, rn BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY ts DESC) AS rn FROM r) WHERE rn <= 2;
