CREATE TABLE al (id INT, k STRING, v INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', 'path'='${DIR}/al.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE bl (id INT, k STRING, v INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', 'path'='${DIR}/bl.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (c0 INT, c1 INT) WITH ('connector'='print');
INSERT INTO snk SELECT al.id, bl.id FROM al JOIN bl ON al.k = bl.k AND al.ts BETWEEN bl.ts - INTERVAL '5' SECOND AND bl.ts;
