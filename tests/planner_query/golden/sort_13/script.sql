SET '__table.exec.sort.non-temporal.enabled__' = 'true';
CREATE TABLE e (x INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', 'path'='${DIR}/e.json', 'format'='json');
CREATE TABLE snk (c0 INT, c1 TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT x, ts FROM e ORDER BY ts, x;
