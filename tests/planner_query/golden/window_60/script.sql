CREATE TABLE t (k STRING, v INT, d DOUBLE, n DECIMAL(10, 2), g BOOLEAN, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (k STRING, a DOUBLE, b DECIMAL(38,2), c DECIMAL(10,2), d DOUBLE) WITH ('connector'='print');
INSERT INTO snk SELECT k, AVG(d), SUM(n), MAX(n), STDDEV_POP(d) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY k, window_start, window_end;
