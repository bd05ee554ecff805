CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, COUNT(*) FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a, b ORDER BY c) AS rn FROM t) WHERE rn = 1 GROUP BY a;
