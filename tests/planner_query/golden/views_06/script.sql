CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE VIEW v AS SELECT a, SUM(b) AS b FROM t GROUP BY a;
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a, b FROM v UNION ALL SELECT a, n FROM (SELECT a, COUNT(*) n FROM v GROUP BY a);
