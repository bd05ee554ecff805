CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (c STRING, a INT, s BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT c, a, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY cnt DESC, s DESC) AS rn FROM (SELECT c, a, COUNT(*) AS cnt, SUM(b) AS s FROM t WHERE b > 0 GROUP BY c, a)) WHERE rn <= 3;
