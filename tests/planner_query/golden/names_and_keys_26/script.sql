CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a STRING) WITH ('connector'='print');
INSERT INTO snk SELECT c FROM t WHERE CASE a WHEN 1 THEN 'x' WHEN 2 THEN 'y' END <> 'y';
