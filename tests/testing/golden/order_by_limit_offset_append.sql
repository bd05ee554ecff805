-- Flink's golden case order_by_limit_offset_append.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO snk SELECT id, g, v FROM src ORDER BY v DESC LIMIT 2 OFFSET 1;

-- test: the tables are those of Flink
-- given src
--   | id | g | v |
--   | 1  | a | 5 |
--   | 2  | a | 3 |
--   | 3  | a | 9 |
--   | 4  | a | 1 |
--   | 5  | a | 7 |
-- end
-- expect table
--   | id | g | v |
--   | 1  | a | 5 |
--   | 5  | a | 7 |
