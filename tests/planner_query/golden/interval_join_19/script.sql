CREATE TABLE ma (id INT, k STRING, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', 'path'='${DIR}/ma.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE mb (id INT, k STRING, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', 'path'='${DIR}/mb.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (c0 INT, c1 INT) WITH ('connector'='print');
INSERT INTO snk SELECT ma.id, mb.id FROM ma JOIN mb ON ma.k = mb.k AND ma.ts BETWEEN mb.ts - INTERVAL '5' SECOND AND mb.ts;
