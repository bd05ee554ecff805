CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE w (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/w.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT t.a, q.x FROM t LEFT JOIN (SELECT a, x, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY x DESC) AS rn FROM w) WHERE rn <= 2) q ON t.a = q.a AND q.rn = 2;
