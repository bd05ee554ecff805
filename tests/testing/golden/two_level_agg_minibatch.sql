-- Flink's golden case two_level_agg_minibatch.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
SET 'table.optimizer.agg-phase-strategy' = 'TWO_PHASE';
SET 'table.optimizer.distinct-agg.split.enabled' = 'true';
SET 'table.optimizer.distinct-agg.split.bucket-num' = '4';
CREATE TABLE src (u INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (g STRING, ud BIGINT, c BIGINT, s BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT g, COUNT(DISTINCT u), COUNT(*), SUM(v) FROM src GROUP BY g;

-- test: the tables are those of Flink
-- given src
--   | u    | g | v |
--   | 1    | a | 1 |
--   | 1    | a | 2 |
--   | 2    | a | 3 |
--   | 2    | b | 4 |
--   | 3    | b | 5 |
--   | NULL | b | 6 |
-- advance 1500 ms
-- given src
--   | u | g | v    |
--   | 9 | a | 1    |
--   | 1 | c | NULL |
--   | 2 | b | 1    |
--   | 4 | a | 1    |
-- end
-- expect table
--   | g | ud | c | s    |
--   | a | 4  | 5 | 8    |
--   | b | 2  | 4 | 16   |
--   | c | 1  | 1 | NULL |
