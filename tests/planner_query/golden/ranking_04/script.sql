CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY y ORDER BY s DESC) AS rn FROM (SELECT u.a, u.y, g.s FROM (SELECT a, SUM(b) AS s FROM t GROUP BY a) g JOIN u ON g.a = u.a)) WHERE rn <= 2;
