CREATE TABLE r (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/r.json', 'format'='debezium-json');
CREATE TABLE snk (x0 INT, x1 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, x FROM (SELECT a, ARRAY_AGG(b) AS ys FROM r GROUP BY a) CROSS JOIN UNNEST(ys) AS T(x);
