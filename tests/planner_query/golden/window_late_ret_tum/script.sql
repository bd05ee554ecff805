CREATE TABLE src (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/window_changes.json', 'format'='op-json', 'op-json.mode'='retract');
CREATE TABLE snk (k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), c BIGINT, s INT, m INT, d BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT k, window_start, window_end, COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT v) FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end;
