-- Flink's golden case sink_on_conflict_error.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (id INT, g STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='debezium-json', 'debezium-json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (g STRING, id INT, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO snk SELECT g, id, v FROM src ON CONFLICT DO ERROR;

-- test: the tables are those of Flink
-- given src
--      | id | g | v | ts                  |
--   +I | 1  | a | 5 | 2024-01-01T00:00:01 |
--   +I | 2  | b | 3 | 2024-01-01T00:00:02 |
--   -U | 1  | a | 5 | 2024-01-01T00:00:01 |
--   +U | 1  | a | 6 | 2024-01-01T00:00:03 |
--   -D | 2  | b | 3 | 2024-01-01T00:00:02 |
--   +I | 3  | b | 4 | 2024-01-01T00:00:09 |
-- end
-- expect table
--   | g | id | v |
--   | a | 1  | 6 |
--   | b | 3  | 4 |
