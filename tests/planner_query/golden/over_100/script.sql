CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE k (id INT, x BIGINT) WITH ('connector'='print');
INSERT INTO k SELECT id, COUNT(v) OVER (PARTITION BY g ORDER BY pt) FROM (SELECT * FROM u WHERE v > 3) WHERE g IN ('a', 'b');
