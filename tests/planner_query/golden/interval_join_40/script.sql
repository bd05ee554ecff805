CREATE TABLE a (id INT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/a.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (c0 INT, c1 INT) WITH ('connector'='print');
INSERT INTO snk SELECT x.id, y.id FROM a AS x JOIN a AS y ON x.k = y.k AND x.ts BETWEEN y.ts AND y.ts + INTERVAL '3' SECOND;
