CREATE TABLE r (a INT, b BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/ranking_40_r.json','format'='json');
CREATE TABLE snk (b BIGINT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT b, COUNT(*) FROM (SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY ts DESC) AS rn FROM r) WHERE rn = 1) GROUP BY b;
