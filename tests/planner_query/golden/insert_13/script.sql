CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE VIEW v (q, s) AS SELECT a, b FROM t;
CREATE TABLE snk (x INT, z BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT q, s + 1 FROM v;
