CREATE TABLE t (a INT, b BIGINT, c STRING, n INT) WITH ('connector'='filesystem','path'='${DIR}/ranking_02_t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, rn BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS rn FROM t) WHERE rn <= 2;
