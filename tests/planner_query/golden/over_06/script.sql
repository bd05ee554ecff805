CREATE TABLE t (id INT, g STRING, v INT, d DOUBLE, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE k (id INT, s BIGINT, c BIGINT) WITH ('connector'='print');
INSERT INTO k SELECT id, SUM(v) OVER w, COUNT(DISTINCT v) OVER w FROM t WINDOW w AS (PARTITION BY g ORDER BY ts);
