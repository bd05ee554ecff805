CREATE TABLE t (id INT, g STRING, v INT, w BIGINT NOT NULL, d DOUBLE, e DECIMAL(10, 2), s STRING, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/over.json', 'format'='json');
CREATE TABLE snk (id INT, x BIGINT, y BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, MIN(DISTINCT v) OVER w, MAX(DISTINCT v) OVER w FROM t WINDOW w AS (PARTITION BY g ORDER BY ts);
