CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE k (id INT, x BIGINT) WITH ('connector'='print');
INSERT INTO k SELECT a.id, b.x FROM u a JOIN (SELECT id, COUNT(v) OVER (PARTITION BY g ORDER BY pt) AS x FROM u) b ON a.id = b.id AND b.x > 3;
