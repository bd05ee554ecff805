CREATE TABLE u (id INT, g STRING, v INT, d DOUBLE, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE k (id INT, s BIGINT, c BIGINT) WITH ('connector'='print');
INSERT INTO k SELECT id, SUM(v) OVER (PARTITION BY g ORDER BY pt ROWS 5 PRECEDING), COUNT(*) OVER (PARTITION BY g ORDER BY pt ROWS 5 PRECEDING) FROM u;
