CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE w (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem','path'='${DIR}/w.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM t EXCEPT SELECT a, x FROM w ORDER BY b LIMIT 3;
