CREATE TABLE r (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/r.json', 'format'='debezium-json');
CREATE TABLE snk (x0 TIMESTAMP(3), x1 DECIMAL(38, 2), x2 DECIMAL(38, 2)) WITH ('connector'='print');
INSERT INTO snk SELECT f, SUM(e), AVG(e) FROM r GROUP BY f;
