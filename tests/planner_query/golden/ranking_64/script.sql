CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT t.a, u.x + 1 FROM t JOIN u ON t.a = u.a WHERE t.b > 3 ORDER BY u.x LIMIT 5;
