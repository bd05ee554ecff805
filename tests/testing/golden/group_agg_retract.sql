-- Flink's golden case group_agg_retract.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (id INT, g STRING, v INT, d DOUBLE) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='debezium-json');
CREATE TABLE snk (g STRING, c BIGINT, cv BIGINT, s BIGINT, a DOUBLE, mn INT, mx INT, cd BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT g, COUNT(*), COUNT(v), SUM(v), AVG(d), MIN(v), MAX(v), COUNT(DISTINCT v) FROM src GROUP BY g;

-- test: the tables are those of Flink
-- given src
--      | id | g    | v    | d    |
--   +I | 1  | a    | 1    | 1.0  |
--   +I | 2  | a    | 5    | 2.0  |
--   -U | 2  | a    | 5    | 2.0  |
--   +U | 2  | a    | 3    | 4.0  |
--   +I | 3  | b    | NULL | NULL |
--   -U | 1  | a    | 1    | 1.0  |
--   +U | 1  | b    | 1    | 1.0  |
--   -D | 3  | b    | NULL | NULL |
--   +I | 4  | a    | 3    | 8.0  |
--   -D | 2  | a    | 3    | 4.0  |
--   +I | 5  | NULL | 9    | 9.0  |
--   -D | 4  | a    | 3    | 8.0  |
--   -U | 5  | NULL | 9    | 9.0  |
--   +U | 5  | NULL | 9    | 9.0  |
--   +I | 6  | a    | 7    | 1.5  |
-- end
-- expect table
--   | g    | c | cv | s | a   | mn | mx | cd |
--   | a    | 1 | 1  | 7 | 1.5 | 7  | 7  | 1  |
--   | b    | 1 | 1  | 1 | 1.0 | 1  | 1  | 1  |
--   | NULL | 1 | 1  | 9 | 9.0 | 9  | 9  | 1  |
