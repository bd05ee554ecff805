SET 'table.local-time-zone' = 'America/New_York';
CREATE TABLE src (k STRING, v INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/window_fall.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (ws TIMESTAMP(3), we TIMESTAMP(3), wt TIMESTAMP_LTZ(3), c BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT window_start, window_end, window_time, COUNT(*) FROM TABLE(CUMULATE(TABLE src, DESCRIPTOR(ts), INTERVAL '6' HOUR, INTERVAL '1' DAY)) GROUP BY window_start, window_end, window_time;
