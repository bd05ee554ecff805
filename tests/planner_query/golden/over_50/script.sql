CREATE TABLE t (id INT, g STRING, v INT, w BIGINT NOT NULL, d DOUBLE, e DECIMAL(10, 2), s STRING, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/over.json', 'format'='json');
CREATE TABLE snk (id INT, x BIGINT, y BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, x + y, x FROM (SELECT id, SUM(v) OVER w AS x, COUNT(*) OVER w AS y FROM t WINDOW w AS (PARTITION BY g ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)) WHERE y > 1 AND x > 3;
