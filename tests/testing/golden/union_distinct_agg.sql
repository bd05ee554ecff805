-- Flink's golden case union_distinct_agg.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE a (id INT, g STRING) WITH ('connector'='filesystem', 'path'='/data/a.json', 'format'='json');
CREATE TABLE b (id INT, g STRING) WITH ('connector'='filesystem', 'path'='/data/b.json', 'format'='json');
CREATE TABLE snk (id INT, g STRING) WITH ('connector'='print');
INSERT INTO snk SELECT id, g FROM a UNION SELECT id, g FROM b;

-- test: the tables are those of Flink
-- given a
--   | id | g |
--   | 1  | x |
--   | 2  | y |
--   | 1  | x |
-- given b
--   | id | g |
--   | 1  | x |
--   | 3  | z |
--   | 2  | q |
-- end
-- expect table
--   | id | g |
--   | 1  | x |
--   | 2  | q |
--   | 2  | y |
--   | 3  | z |
