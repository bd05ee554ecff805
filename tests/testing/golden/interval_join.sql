-- Flink's golden case interval_join.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE a (id INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', 'path'='/data/a.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE b (id INT, k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', 'path'='/data/b.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (aid INT, bid INT, k STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a.id, b.id, a.k FROM a LEFT JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL '2' SECOND;

-- test: the tables are those of Flink
-- given a
--   | id | k | ts                  |
--   | 1  | x | 2024-01-01T00:00:01 |
--   | 2  | y | 2024-01-01T00:00:02 |
--   | 3  | x | 2024-01-01T00:00:08 |
-- given b
--   | id | k | ts                  |
--   | 1  | x | 2024-01-01T00:00:03 |
--   | 2  | x | 2024-01-01T00:00:04 |
--   | 3  | y | 2024-01-01T00:00:01 |
-- end
-- expect table
--   | aid | bid  | k |
--   | 1   | 1    | x |
--   | 2   | 3    | y |
--   | 3   | NULL | x |
