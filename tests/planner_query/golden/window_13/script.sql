CREATE TABLE t (k STRING, v INT, d DOUBLE, n DECIMAL(10, 2), g BOOLEAN, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (ws TIMESTAMP(3), we TIMESTAMP(3), k STRING, c BIGINT, s BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT window_start, window_end, k, COUNT(*), SUM(v) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND)) GROUP BY window_start, window_end, k;
