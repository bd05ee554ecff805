-- Flink's golden case changelog_normalize_upsert.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE snk (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO snk SELECT id, g, v FROM src;

-- test: the tables are those of Flink
-- given src
--      | id | g    | v    |
--   +U | 1  | a    | 1    |
--   +I | 2  | a    | 2    |
--   +U | 1  | a    | 3    |
--   +U | 1  | a    | 3    |
--   -D | 2  | NULL | NULL |
--   -D | 9  | NULL | NULL |
--   +U | 3  | b    | 5    |
--   +U | 3  | a    | 5    |
--   +I | 1  | b    | 1    |
-- end
-- expect table
--   | id | g | v |
--   | 1  | b | 1 |
--   | 3  | a | 5 |
