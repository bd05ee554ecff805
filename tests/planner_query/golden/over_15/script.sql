CREATE TABLE u (id INT, g STRING, v INT, d DOUBLE, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE ks (id INT, s BIGINT) WITH ('connector'='print');
INSERT INTO ks SELECT id, SUM(v) OVER (PARTITION BY UPPER(g) ORDER BY pt) FROM u;
