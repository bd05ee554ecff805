CREATE TABLE t (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/window_left.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE u (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/window_right.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (a INT, d INT, e TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT x.v, y.v, x.window_end FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)) x JOIN TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '5' SECOND)) y ON x.window_start = y.window_start AND x.window_end = y.window_end;
