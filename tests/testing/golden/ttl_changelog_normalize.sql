-- Flink's golden case ttl_changelog_normalize.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 s';

CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE snk (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO snk SELECT id, g, v FROM src;

-- test: the tables are those of Flink
-- given src
--      | id | g | v |
--   +U | 1  | a | 1 |
-- advance 2500 ms
-- given src
--      | id | g    | v    |
--   +U | 1  | a    | 2    |
--   -D | 1  | NULL | NULL |
--   +U | 2  | b    | 1    |
-- advance 2500 ms
-- given src
--      | id | g    | v    |
--   -D | 2  | NULL | NULL |
--   +U | 2  | b    | 3    |
--   +U | 2  | b    | 3    |
-- end
-- expect table
--   | id | g | v |
--   | 1  | a | 1 |
--   | 2  | b | 1 |
--   | 2  | b | 3 |
