CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, d DOUBLE, e DECIMAL(10, 2), s STRING, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='${DIR}/over.json', 'format'='json');
CREATE TABLE snk (id INT, g STRING, v INT, x BIGINT, y BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, g, v, SUM(v) OVER w, COUNT(1) OVER w FROM u WHERE v > 1 WINDOW w AS (PARTITION BY g, s ORDER BY pt ROWS BETWEEN 2 PRECEDING AND CURRENT ROW);
