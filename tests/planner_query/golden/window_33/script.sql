CREATE TABLE t (k STRING, v INT, d DOUBLE, n DECIMAL(10, 2), g BOOLEAN, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (k STRING, v INT, ts TIMESTAMP(3), ws TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT k, v, ts, window_start FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)) WHERE v > 2;
