CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, d DOUBLE, e DECIMAL(10, 2), s STRING, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='${DIR}/over.json', 'format'='json');
CREATE TABLE snk (id INT, x STRING) WITH ('connector'='print');
INSERT INTO snk SELECT id, SINGLE_VALUE(s) OVER (PARTITION BY id ORDER BY pt) FROM u;
