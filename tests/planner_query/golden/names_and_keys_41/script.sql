CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE snk (a INT, b STRING, d STRING) WITH ('connector'='print');
INSERT INTO snk SELECT t.a, t.c, q.y FROM t JOIN (SELECT * FROM u WHERE y IS NOT NULL) q ON t.a = q.a AND t.c IN ('x', 'y') AND q.x BETWEEN 1 AND 5;
