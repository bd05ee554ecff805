-- Flink's golden case withttl_group_agg.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (g STRING, v INT) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (g STRING, m INT) WITH ('connector'='print');
INSERT INTO snk SELECT g, MAX(v) FROM src GROUP BY g;

-- test: the tables are those of Flink
-- given src
--   | g | v    |
--   | a | 3    |
--   | a | 2    |
--   | a | 4    |
--   | b | NULL |
--   | b | NULL |
--   | a | 4    |
-- end
-- expect table
--   | g | m    |
--   | a | 4    |
--   | b | NULL |
