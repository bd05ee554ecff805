CREATE TABLE p (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a, JSON_OBJECTAGG(KEY CAST(b AS STRING) || c VALUE d) FROM (SELECT a, CAST(ROW_NUMBER() OVER (PARTITION BY a ORDER BY pt) AS BIGINT) AS b, c, d FROM p) WHERE b = 1 GROUP BY a;
