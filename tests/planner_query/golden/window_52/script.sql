CREATE TABLE c (id INT, k STRING, v INT, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/c.json', 'format'='debezium-json');
CREATE TABLE snk (ws TIMESTAMP(3), we TIMESTAMP(3), k STRING, c BIGINT, s INT, m INT) WITH ('connector'='print');
INSERT INTO snk SELECT window_start, window_end, k, COUNT(*), SUM(v), MAX(v) FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k;
