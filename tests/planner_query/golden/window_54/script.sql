CREATE TABLE c (id INT, k STRING, v INT, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/c.json', 'format'='debezium-json');
CREATE TABLE snk (k STRING, v INT, ws TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT k, v, window_start FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(ts), INTERVAL '5' SECOND));
