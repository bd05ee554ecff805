CREATE TABLE t (id INT, g STRING, v INT, w BIGINT NOT NULL, d DOUBLE, e DECIMAL(10, 2), s STRING, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/over.json', 'format'='json');
CREATE TABLE snk (g STRING, x BIGINT, y BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT UPPER(g), x, COUNT(*) FROM (SELECT g, COUNT(*) OVER (ORDER BY ts) AS x FROM t) GROUP BY g, x;
