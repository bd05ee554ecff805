CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 DOUBLE, x1 INT, x2 TINYINT) WITH ('connector'='print');
INSERT INTO snk SELECT AVG(d), AVG(a), AVG(CAST(a AS TINYINT)) FROM t;
