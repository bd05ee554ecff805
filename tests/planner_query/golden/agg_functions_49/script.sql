CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT x, JSON_OBJECTAGG(KEY k VALUE v) FROM (SELECT 1 AS x, CAST(a AS STRING) AS k, COUNT(*) AS v FROM t WHERE a IS NOT NULL GROUP BY a) GROUP BY x;
