CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (id INT, mv BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, MAX(s) AS q FROM (SELECT a, SUM(b) AS s FROM t GROUP BY a) GROUP BY a;
