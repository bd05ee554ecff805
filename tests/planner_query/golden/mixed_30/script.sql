CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (x STRING) WITH ('connector'='print');
INSERT INTO snk SELECT CAST(e AS STRING) || CAST(TRUE AS STRING) FROM t WHERE TRIM(c) = 'x' AND DATE_FORMAT(f, 'yyyy') = '2024' AND EXTRACT(YEAR FROM h) = 2024;
