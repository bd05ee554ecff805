-- Flink's golden case agg_of_agg_minibatch.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '1000';
CREATE TABLE src (u INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (c BIGINT, cnt BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT c, COUNT(*) FROM (SELECT u, COUNT(*) AS c FROM src GROUP BY u) GROUP BY c;

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
--   | c | cnt |
--   | 1 | 4   |
--   | 3 | 2   |
