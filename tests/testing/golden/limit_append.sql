-- Flink's golden case limit_append.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO snk SELECT id, g, v FROM src LIMIT 3;

-- test: the tables are those of Flink
-- given src
--   | id | g | v    |
--   | 1  | a | 5    |
--   | 2  | a | 3    |
--   | 3  | a | 9    |
--   | 4  | a | 1    |
--   | 5  | a | 7    |
--   | 6  | b | 2    |
--   | 7  | a | 3    |
--   | 8  | b | 2    |
--   | 9  | b | NULL |
--   | 10 | b | 4    |
--   | 11 | a | 0    |
--   | 12 | b | 1    |
-- end
-- expect table
--   | id | g | v |
--   | 1  | a | 5 |
--   | 2  | a | 3 |
--   | 3  | a | 9 |
