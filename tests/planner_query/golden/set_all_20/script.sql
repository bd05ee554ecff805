CREATE TABLE a (id INT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/a.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE b (id INT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem', 'path'='${DIR}/b.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (c0 TIMESTAMP(3), c1 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT ts, k FROM a INTERSECT ALL SELECT ts, k FROM b;
