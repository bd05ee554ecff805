CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (x INT, y BIGINT, z BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, SUM(s), MAX(s) FROM (SELECT a, x, SUM(s) AS s FROM (SELECT a, x, c, COUNT(*) AS s FROM (SELECT a, b AS x, c FROM t) GROUP BY a, x, c) GROUP BY a, x) GROUP BY a;
