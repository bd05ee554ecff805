CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (b BIGINT, a INT) WITH ('connector'='print');
INSERT INTO snk SELECT MAX(b) AS m, a FROM t GROUP BY a HAVING COUNT(*) > 1 ORDER BY m DESC LIMIT 3;
