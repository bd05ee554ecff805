CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (x TIMESTAMP(6), y TIMESTAMP_LTZ(6)) WITH ('connector'='print');
INSERT INTO snk SELECT f, pt FROM (SELECT f, PROCTIME() AS pt FROM t);
