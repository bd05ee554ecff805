-- Flink's golden case from_changelog_retract.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (o STRING, id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (g STRING, c BIGINT, s BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT g, COUNT(*), SUM(v) FROM FROM_CHANGELOG(input => TABLE src, op => DESCRIPTOR(o)) GROUP BY g;

-- test: the tables are those of Flink
-- given src
--   | o             | id | g | v |
--   | INSERT        | 1  | a | 1 |
--   | INSERT        | 2  | a | 2 |
--   | UPDATE_BEFORE | 1  | a | 1 |
--   | UPDATE_AFTER  | 1  | a | 3 |
--   | DELETE        | 2  | a | 2 |
-- end
-- expect table
--   | g | c | s |
--   | a | 1 | 3 |
