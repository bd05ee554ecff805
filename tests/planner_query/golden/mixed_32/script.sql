CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (x STRING) WITH ('connector'='print');
INSERT INTO snk SELECT c FROM t WHERE IF(a > 1, b, 3) > 2 AND CHAR_LENGTH(c) IN (1,2) AND c || 'x' = 'ax';
