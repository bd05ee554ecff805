CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, SUM(b) FROM (SELECT a, cnt AS b FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY cnt DESC) AS rn FROM (SELECT c, a, COUNT(*) AS cnt FROM t GROUP BY c, a)) WHERE rn <= 3) GROUP BY a;
