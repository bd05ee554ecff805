-- Flink's golden case ttl_group_agg.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 s';

CREATE TABLE src (g STRING, v INT) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (g STRING, c BIGINT, s BIGINT, d BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT g, COUNT(*), SUM(v), COUNT(DISTINCT v) FROM src GROUP BY g;

-- test: the tables are those of Flink
-- given src
--   | g | v |
--   | a | 1 |
--   | a | 2 |
--   | b | 1 |
-- advance 700 ms
-- given src
--   | g | v |
--   | a | 1 |
-- advance 700 ms
-- given src
--   | g | v |
--   | a | 3 |
--   | b | 1 |
-- advance 2500 ms
-- given src
--   | g | v |
--   | a | 1 |
--   | a | 1 |
-- end
-- expect table
--   | g | c | s | d |
--   | a | 2 | 2 | 1 |
--   | a | 4 | 7 | 3 |
--   | b | 1 | 1 | 1 |
--   | b | 1 | 1 | 1 |
