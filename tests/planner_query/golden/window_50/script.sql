SET 'table.local-time-zone' = 'Asia/Shanghai';
CREATE TABLE l (k STRING, v INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/l.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (ws TIMESTAMP(3), we TIMESTAMP(3), wt TIMESTAMP_LTZ(3), c BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT window_start, window_end, window_time, COUNT(*) FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end, window_time;
