CREATE TABLE r (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/r.json', 'format'='debezium-json');
CREATE TABLE snk (x0 INT, x1 STRING, x2 STRING, x3 INT, x4 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, MIN(c), MAX(c), MIN(a), SUM(b) FROM (SELECT DISTINCT a, b, c FROM r) GROUP BY a;
