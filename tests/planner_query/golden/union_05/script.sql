CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE snk (a INT, c BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, COUNT(*) FROM (SELECT a FROM t WHERE b > 1 UNION ALL SELECT a FROM u WHERE x < 4) GROUP BY a;
