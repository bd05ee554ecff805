CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, b BIGINT, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE k (id INT, x BIGINT) WITH ('connector'='print');
INSERT INTO k SELECT id, SUM(v) OVER (PARTITION BY b ORDER BY pt) FROM u WHERE b = 5;
