CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, n INT, rn BIGINT, PRIMARY KEY (a, rn) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO snk SELECT a, b, n, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS rn FROM (SELECT a, n, COUNT(DISTINCT b) AS b FROM t GROUP BY a, n)) WHERE rn <= 2;
