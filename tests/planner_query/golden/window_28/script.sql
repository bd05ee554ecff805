SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE';
CREATE TABLE t (k STRING, v INT, d DOUBLE, n DECIMAL(10, 2), g BOOLEAN, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/t.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (s BIGINT, m INT, x INT, a INT) WITH ('connector'='print');
INSERT INTO snk SELECT SUM(v), MIN(v), MAX(v), AVG(v) FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '6' SECOND)) GROUP BY window_start, window_end;
