CREATE TABLE r (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/r.json', 'format'='debezium-json');
CREATE TABLE snk (x0 INT, x1 ARRAY<STRING>, x2 ARRAY<STRING>) WITH ('connector'='print');
INSERT INTO snk SELECT a, ARRAY_AGG(c), ARRAY_AGG(DISTINCT c) FROM r GROUP BY a;
