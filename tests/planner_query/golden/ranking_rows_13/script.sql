CREATE TABLE t (a INT, b BIGINT, c STRING, n INT) WITH ('connector'='filesystem','path'='${DIR}/ranking_13_t.json','format'='json');
CREATE TABLE snk (c STRING, a INT, cnt BIGINT, rn BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT c, a, cnt, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY cnt) AS rn FROM (SELECT c, a, COUNT(*) AS cnt FROM t GROUP BY c, a)) WHERE rn <= 2;
