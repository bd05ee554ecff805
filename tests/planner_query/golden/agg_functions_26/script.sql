CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 DOUBLE, x1 DOUBLE) WITH ('connector'='print');
INSERT INTO snk SELECT VAR_POP(d), AVG(d) FROM t;
