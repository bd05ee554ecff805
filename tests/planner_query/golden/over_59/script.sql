CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, d DOUBLE, e DECIMAL(10, 2), s STRING, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='${DIR}/over.json', 'format'='json');
CREATE TABLE snk (id INT, x BIGINT, y BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, x, v FROM (SELECT id, v, g, SUM(v) OVER (PARTITION BY g ORDER BY pt) AS x FROM u) WHERE g = 'b';
