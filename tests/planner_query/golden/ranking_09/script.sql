CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, rn BIGINT, PRIMARY KEY (rn) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO snk SELECT a, b, rn FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n2 DESC, b DESC) AS rn FROM (SELECT a, MAX(b) AS b, COUNT(*) AS n2 FROM t GROUP BY a)) WHERE rn <= 3;
