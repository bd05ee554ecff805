CREATE TABLE t (id INT, g STRING, v INT, w BIGINT NOT NULL, b BIGINT, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE k (id INT, x BIGINT) WITH ('connector'='print');
INSERT INTO k SELECT id, MAX(w) OVER (PARTITION BY b ORDER BY ts) FROM t WHERE b = 5 AND v > 3;
