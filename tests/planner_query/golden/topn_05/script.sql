CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (c STRING, b BIGINT, rn BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT c, b, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY b) AS rn FROM t) WHERE rn BETWEEN 2 AND 4;
