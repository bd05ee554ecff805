CREATE TABLE t (a INT, b BIGINT, c STRING, n INT) WITH ('connector'='filesystem','path'='${DIR}/ranking_03_t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, rn BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC, n) AS rn FROM t) WHERE rn BETWEEN 2 AND 3;
