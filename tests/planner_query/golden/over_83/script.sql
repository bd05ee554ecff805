CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, d DOUBLE, e DECIMAL(10, 2), s STRING, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='${DIR}/over.json', 'format'='json');
CREATE TABLE snk (g STRING, x BIGINT, y BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT g, x, y FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x DESC) AS rn FROM (SELECT g, SUM(w) OVER (PARTITION BY g ORDER BY pt) AS x, w AS y FROM u)) WHERE rn <= 2;
