CREATE TABLE t (id INT, g STRING, v INT, d DOUBLE, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE ks (id INT, s BIGINT) WITH ('connector'='print');
INSERT INTO ks SELECT MAX(id), SUM(s) FROM (SELECT id, g, SUM(v) OVER (PARTITION BY g ORDER BY ts) AS s, ts FROM t) GROUP BY g;
