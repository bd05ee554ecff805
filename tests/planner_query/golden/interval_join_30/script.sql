CREATE TABLE a (id INT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/a.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE b (id INT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/b.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (c0 INT, c1 INT) WITH ('connector'='print');
INSERT INTO snk SELECT a.id, b.id FROM a JOIN b ON a.k = b.k AND a.ts > b.ts - INTERVAL '5' SECOND AND a.ts > b.ts - INTERVAL '3' SECOND;
