CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, x FROM (SELECT a, COLLECT(b) AS ms FROM t GROUP BY a) CROSS JOIN UNNEST(ms) AS T(x);
