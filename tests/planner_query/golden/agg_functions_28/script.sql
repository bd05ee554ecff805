CREATE TABLE r (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/r.json', 'format'='debezium-json');
CREATE TABLE snk (x0 INT, x1 DECIMAL(10, 2), x2 DECIMAL(10, 2)) WITH ('connector'='print');
INSERT INTO snk SELECT a, FIRST_VALUE(e), LAST_VALUE(e) FROM r GROUP BY a;
