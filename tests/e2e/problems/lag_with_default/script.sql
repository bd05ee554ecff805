CREATE TABLE e (id INT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem','path'='${DIR}/e.json','format'='json');
CREATE TABLE out_t (id INT, o INT) WITH ('connector'='print');
INSERT INTO out_t SELECT id, LAG(v, 1, 0) OVER (PARTITION BY k ORDER BY ts) FROM e;
