CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, b BIGINT, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE k (id INT, x BIGINT) WITH ('connector'='print');
INSERT INTO k SELECT id, COUNT(*) OVER (PARTITION BY w ORDER BY pt) FROM u WHERE w = 5;
