CREATE TABLE t (a INT, b BIGINT, c STRING, n INT) WITH ('connector'='filesystem','path'='${DIR}/ranking_18_t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT) WITH ('connector'='filesystem','path'='${DIR}/ranking_18_u.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, x FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY x DESC) AS rn FROM (SELECT t.a, t.b, u.x FROM t JOIN u ON t.a = u.a)) WHERE rn <= 2;
