SET 'table.exec.state.ttl' = '1 h';
CREATE TABLE r (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/r.json', 'format'='debezium-json');
CREATE TABLE snk (x0 INT, x1 BIGINT, x2 ARRAY<STRING>, x3 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a, COUNT(*), ARRAY_AGG(c), LISTAGG(c) FROM r GROUP BY a;
