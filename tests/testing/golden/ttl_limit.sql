-- Flink's golden case ttl_limit.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 s';

CREATE TABLE src (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO snk SELECT id, g, v FROM src WHERE v > 0 LIMIT 2;

-- test: the tables are those of Flink
-- given src
--   | id | g | v |
--   | 1  | a | 5 |
--   | 2  | a | 9 |
--   | 3  | a | 1 |
-- advance 2500 ms
-- given src
--   | id | g | v |
--   | 4  | a | 2 |
--   | 5  | a | 3 |
--   | 6  | a | 4 |
-- end
-- expect table
--   | id | g | v |
--   | 1  | a | 5 |
--   | 2  | a | 9 |
--   | 4  | a | 2 |
--   | 5  | a | 3 |
