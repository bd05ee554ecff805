CREATE TABLE t (a INT, b BIGINT, c STRING, n INT) WITH ('connector'='filesystem','path'='${DIR}/ranking_30_t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, COUNT(*) AS n FROM t GROUP BY a LIMIT 2;
