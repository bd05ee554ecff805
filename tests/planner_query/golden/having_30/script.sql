CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE snk (y STRING, s BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT u.y, SUM(t.b) FROM t JOIN u ON t.a = u.a WHERE u.x > 3 GROUP BY u.y HAVING COUNT(*) > 1;
