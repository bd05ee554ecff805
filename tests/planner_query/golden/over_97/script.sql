CREATE TABLE pk (id INT, g STRING, v INT, pt AS PROCTIME(), PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE kk (id INT, x BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO kk SELECT id, SUM(v) OVER (PARTITION BY g ORDER BY pt) FROM pk;
