CREATE TABLE r (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/r.json', 'format'='debezium-json');
CREATE TABLE snk (x0 INT, x1 DOUBLE, x2 DOUBLE, x3 DOUBLE, x4 DOUBLE, x5 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, VAR_POP(d), VARIANCE(d), STDDEV_POP(d), STDDEV(d), COUNT(d) FROM r GROUP BY a;
