CREATE TABLE u (id INT, g STRING, v INT, w BIGINT NOT NULL, d DOUBLE, e DECIMAL(10, 2), s STRING, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='${DIR}/over.json', 'format'='json');
CREATE TABLE snk (id INT, x INT, y INT) WITH ('connector'='print');
INSERT INTO snk SELECT * FROM (SELECT id, FIRST_VALUE(v) OVER w AS f, LAST_VALUE(id) OVER w AS l FROM u WINDOW w AS (PARTITION BY g ORDER BY pt ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)) WHERE f IS NOT NULL;
