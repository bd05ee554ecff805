CREATE TABLE e1 (id INT, k STRING, v INT, d DOUBLE, c DECIMAL(10,2), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/e1.json','format'='json');
CREATE TABLE out_t (f STRING, k STRING, ws TIMESTAMP(3), we TIMESTAMP(3), j STRING) WITH ('connector'='print');
INSERT INTO out_t
SELECT 'session', k, window_start, window_end, JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE v) FROM TABLE(SESSION(TABLE e1 PARTITION BY k, DESCRIPTOR(ts), INTERVAL '6' SECOND)) GROUP BY k, window_start, window_end
UNION ALL SELECT 'cumulate', k, window_start, window_end, JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE v) FROM TABLE(CUMULATE(TABLE e1, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '60' SECOND)) GROUP BY k, window_start, window_end
UNION ALL SELECT 'hop', k, window_start, window_end, JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE v) FROM TABLE(HOP(TABLE e1, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '60' SECOND)) GROUP BY k, window_start, window_end
UNION ALL SELECT 'tumble', k, window_start, window_end, JSON_ARRAYAGG(v) FROM TABLE(TUMBLE(TABLE e1, DESCRIPTOR(ts), INTERVAL '60' SECOND)) GROUP BY k, window_start, window_end;
