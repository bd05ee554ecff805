CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, rn BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY r1, b DESC) AS rn FROM (SELECT a, b, c, r1 FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a, c ORDER BY b DESC) AS r1 FROM t) WHERE r1 <= 10)) WHERE rn <= 3;
