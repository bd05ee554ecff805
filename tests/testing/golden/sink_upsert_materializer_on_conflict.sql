-- Flink's golden case sink_upsert_materializer_on_conflict.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='debezium-json');
CREATE TABLE snk (g STRING, id INT, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO snk SELECT g, id, v FROM src ON CONFLICT DO DEDUPLICATE;

-- test: the tables are those of Flink
-- given src
--      | id | g | v |
--   +I | 1  | a | 5 |
--   +I | 2  | a | 3 |
--   +I | 3  | a | 9 |
--   +I | 4  | a | 1 |
--   +I | 5  | a | 7 |
--   -U | 3  | a | 9 |
--   +U | 3  | a | 2 |
--   -D | 1  | a | 5 |
--   +I | 6  | b | 2 |
--   -U | 5  | a | 7 |
--   +U | 5  | b | 7 |
--   -D | 2  | a | 3 |
--   +I | 7  | a | 4 |
--   -U | 7  | a | 4 |
--   +U | 7  | a | 4 |
--   -D | 7  | a | 4 |
--   -D | 4  | a | 1 |
-- end
-- expect table
--   | g | id | v |
--   | a | 3  | 2 |
--   | b | 5  | 7 |
