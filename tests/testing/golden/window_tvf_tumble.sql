-- Flink's golden case window_tvf_tumble.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (ws TIMESTAMP(3), we TIMESTAMP(3), k STRING, c BIGINT, s BIGINT, cd BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT window_start, window_end, k, COUNT(*), SUM(v), COUNT(DISTINCT v) FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k;

-- test: the tables are those of Flink
-- given src
--   | k | v | ts                  |
--   | a | 1 | 2024-01-01T00:00:01 |
-- advance 20 ms
-- given src
--   | k | v | ts                  |
--   | b | 2 | 2024-01-01T00:00:03 |
-- advance 20 ms
-- given src
--   | k | v | ts                      |
--   | a | 1 | 2024-01-01T00:00:04.999 |
-- advance 20 ms
-- given src
--   | k | v | ts                  |
--   | a | 3 | 2024-01-01T00:00:05 |
-- advance 20 ms
-- given src
--   | k | v | ts                  |
--   | a | 4 | 2024-01-01T00:00:02 |
-- advance 20 ms
-- given src
--   | k | v | ts                  |
--   | a | 5 | 2024-01-01T00:00:07 |
-- advance 20 ms
-- given src
--   | k | v | ts                  |
--   | a | 6 | 2024-01-01T00:00:04 |
-- advance 20 ms
-- given src
--   | k | v | ts                  |
--   | b | 7 | 2024-01-01T00:00:12 |
-- advance 20 ms
-- given src
--   | k    | v | ts                  |
--   | NULL | 8 | 2024-01-01T00:00:08 |
-- advance 20 ms
-- given src
--   | k | v | ts                  |
--   | a | 9 | 2024-01-01T00:00:11 |
-- advance 20 ms
-- end
-- expect table
--   | ws                  | we                  | k | c | s | cd |
--   | 2024-01-01 00:00:00 | 2024-01-01 00:00:05 | a | 3 | 6 | 2  |
--   | 2024-01-01 00:00:00 | 2024-01-01 00:00:05 | b | 1 | 2 | 1  |
--   | 2024-01-01 00:00:05 | 2024-01-01 00:00:10 | a | 2 | 8 | 2  |
--   | 2024-01-01 00:00:10 | 2024-01-01 00:00:15 | a | 1 | 9 | 1  |
--   | 2024-01-01 00:00:10 | 2024-01-01 00:00:15 | b | 1 | 7 | 1  |
