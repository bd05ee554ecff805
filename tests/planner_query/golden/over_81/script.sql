CREATE TABLE t (id INT, g STRING, v INT, w BIGINT NOT NULL, d DOUBLE, e DECIMAL(10, 2), s STRING, pt AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/over.json', 'format'='json');
CREATE TABLE snk (id INT, ts TIMESTAMP(3), x BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, ts, SUM(x) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (SELECT id, ts, COUNT(*) OVER (PARTITION BY g ORDER BY ts) AS x FROM t);
