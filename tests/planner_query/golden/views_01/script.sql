CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, c STRING) WITH ('connector'='print');
INSERT INTO snk SELECT x.a, x.b, y.c FROM (SELECT a, b FROM t WHERE b > 1) x JOIN (SELECT a, c FROM t WHERE b > 1) y ON x.a = y.a;
