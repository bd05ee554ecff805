CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (x INT, y BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, SUM(s) FROM (SELECT a, b, SUM(x) AS s FROM (SELECT a, b, a AS x FROM t) GROUP BY a, b) GROUP BY a;
