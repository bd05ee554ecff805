CREATE TABLE src (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/window_clicks.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (k STRING, v INT, ws TIMESTAMP(3), we TIMESTAMP(3), wt TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT k, v, window_start, window_end, window_time FROM TABLE(CUMULATE(TABLE src, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND));
