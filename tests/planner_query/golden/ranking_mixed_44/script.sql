CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='print');
INSERT INTO snk SELECT t.* FROM t ORDER BY t.b DESC NULLS LAST LIMIT 3;
