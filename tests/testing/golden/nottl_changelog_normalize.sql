-- Flink's golden case nottl_changelog_normalize.

SET 'table.local-time-zone' = 'UTC';
CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE snk (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO snk SELECT id, g, v FROM src;

-- test: the tables are those of Flink
-- given src
--      | id | g    | v    |
--   +U | 1  | a    | 1    |
--   +U | 1  | a    | 2    |
--   -D | 1  | NULL | NULL |
--   +U | 2  | b    | 1    |
--   -D | 2  | NULL | NULL |
--   +U | 2  | b    | 3    |
--   +U | 2  | b    | 3    |
-- end
-- expect table
--   | id | g | v |
--   | 2  | b | 3 |
