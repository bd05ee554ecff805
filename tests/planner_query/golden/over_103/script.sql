CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE k (id INT, x BIGINT) WITH ('connector'='print');
INSERT INTO k SELECT id, COALESCE(LAG(v) OVER (PARTITION BY g ORDER BY pt), 0) FROM u;
