CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b INT) WITH ('connector'='print');
INSERT INTO snk SELECT 2 * 3 + a, CAST(2.7 AS INT) FROM t WHERE LOWER('ABC') = 'abc';
