CREATE TABLE t (a INT, b BIGINT, c STRING, n INT) WITH ('connector'='filesystem','path'='${DIR}/ranking_17_t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY b DESC) AS rn FROM (SELECT a, b, c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a, c ORDER BY b DESC) AS r1 FROM t) WHERE r1 <= 4)) WHERE rn <= 2;
