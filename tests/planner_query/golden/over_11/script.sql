CREATE TABLE u (id INT, g STRING, v INT, d DOUBLE, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE k (id INT, s BIGINT, c BIGINT) WITH ('connector'='print');
INSERT INTO k SELECT id, FIRST_VALUE(v) OVER w, LAST_VALUE(v) OVER w FROM u WINDOW w AS (PARTITION BY g ORDER BY pt);
