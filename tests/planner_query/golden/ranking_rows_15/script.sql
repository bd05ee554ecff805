CREATE TABLE t (a INT, b BIGINT, c STRING, n INT) WITH ('connector'='filesystem','path'='${DIR}/ranking_15_t.json','format'='json');
CREATE TABLE snk (c STRING, a INT, cnt BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT c, a, cnt FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY cnt DESC) AS rn FROM (SELECT c, a, SUM(b) AS cnt FROM t GROUP BY c, a)) WHERE rn <= 2;
