CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json');
CREATE TABLE u (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f TIMESTAMP(3), g BOOLEAN) WITH ('connector'='filesystem', 'path'='${DIR}/u.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 BIGINT, x2 DECIMAL(38, 2)) WITH ('connector'='print');
INSERT INTO snk WITH s AS (SELECT a, SUM(b) AS x FROM t GROUP BY a), m AS (SELECT a, MAX(e) AS y FROM u GROUP BY a) SELECT s.a, x, y FROM s JOIN m ON s.a = m.a;
