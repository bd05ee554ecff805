-- Flink's golden case ttl_dedup_keep_first.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 s';

CREATE TABLE src (k INT, v INT, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (k INT, v INT) WITH ('connector'='print');
INSERT INTO snk SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt) AS rn FROM src) WHERE rn = 1;

-- test: the tables are those of Flink
-- given src
--   | k | v |
--   | 1 | 1 |
--   | 2 | 2 |
--   | 1 | 3 |
-- advance 700 ms
-- given src
--   | k | v |
--   | 1 | 4 |
-- advance 700 ms
-- given src
--   | k | v |
--   | 1 | 5 |
-- advance 2500 ms
-- given src
--   | k | v |
--   | 1 | 6 |
--   | 2 | 7 |
-- end
-- expect table
--   | k | v |
--   | 1 | 1 |
--   | 1 | 5 |
--   | 1 | 6 |
--   | 2 | 2 |
--   | 2 | 7 |
