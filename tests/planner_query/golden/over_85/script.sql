CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, d DOUBLE, e DECIMAL(10, 2), s STRING, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='${DIR}/over.json', 'format'='json');
CREATE TABLE snk (id INT, x INT, y STRING) WITH ('connector'='print');
INSERT INTO snk SELECT id, MAX(v) OVER w, LISTAGG(DISTINCT s) OVER w FROM u WINDOW w AS (PARTITION BY g ORDER BY pt);
