CREATE TABLE r (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/r.json', 'format'='debezium-json');
CREATE TABLE snk (x0 INT, x1 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT x, JSON_OBJECTAGG(KEY c VALUE v ABSENT ON NULL) FROM (SELECT 1 AS x, c, SUM(b) AS v FROM r WHERE c IS NOT NULL GROUP BY c) GROUP BY x;
