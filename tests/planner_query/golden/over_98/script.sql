CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE kk (id INT, x BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO kk SELECT id, MAX(x) FROM (SELECT id, COUNT(*) OVER (PARTITION BY g ORDER BY pt) AS x FROM u) GROUP BY id;
