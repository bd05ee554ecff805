CREATE TABLE r (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/r.json', 'format'='debezium-json');
CREATE TABLE snk (x0 INT, x1 STRING, x2 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a, JSON_OBJECTAGG(KEY c VALUE b ABSENT ON NULL), JSON_OBJECTAGG(KEY c VALUE d NULL ON NULL) FROM r WHERE c IS NOT NULL GROUP BY a;
