SET 'table.local-time-zone' = 'Asia/Tokyo';
CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (a TIMESTAMP(3), b TIMESTAMP_LTZ(3)) WITH ('connector'='print');
INSERT INTO snk SELECT CAST(TO_TIMESTAMP_LTZ(0, 3) AS TIMESTAMP(3)), CAST(TIMESTAMP '2024-01-01 00:00:00' AS TIMESTAMP_LTZ(3)) FROM t;
