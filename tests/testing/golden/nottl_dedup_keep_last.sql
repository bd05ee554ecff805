-- Flink's golden case nottl_dedup_keep_last.

SET 'table.local-time-zone' = 'UTC';
CREATE TABLE src (k INT, v INT, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (k INT, v INT) WITH ('connector'='print');
INSERT INTO snk SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt DESC) AS rn FROM src) WHERE rn = 1;

-- test: the tables are those of Flink
-- given src
--   | k | v |
--   | 1 | 1 |
--   | 1 | 1 |
--   | 1 | 2 |
--   | 2 | 1 |
-- end
-- expect table
--   | k | v |
--   | 1 | 2 |
--   | 2 | 1 |
