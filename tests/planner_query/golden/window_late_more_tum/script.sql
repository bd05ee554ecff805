CREATE TABLE src (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/window_clicks.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (k STRING, we TIMESTAMP(3), t STRING, a ARRAY<INT>, g INT, x DOUBLE) WITH ('connector'='print');
INSERT INTO snk SELECT k, window_end, LISTAGG(k), ARRAY_AGG(v), AVG(v), STDDEV_POP(v) FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end;
