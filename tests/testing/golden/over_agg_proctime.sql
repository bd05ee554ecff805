-- Flink's golden case over_agg_proctime.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (id INT, g STRING, v INT, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (id INT, g STRING, s BIGINT, c BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, g, SUM(v) OVER w, COUNT(*) OVER w FROM src WINDOW w AS (PARTITION BY g ORDER BY pt ROWS BETWEEN 2 PRECEDING AND CURRENT ROW);

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
--   | id | g | s  | c |
--   | 1  | a | 5  | 1 |
--   | 10 | b | 6  | 3 |
--   | 11 | a | 10 | 3 |
--   | 12 | b | 5  | 3 |
--   | 2  | a | 8  | 2 |
--   | 3  | a | 17 | 3 |
--   | 4  | a | 13 | 3 |
--   | 5  | a | 17 | 3 |
--   | 6  | b | 2  | 1 |
--   | 7  | a | 11 | 3 |
--   | 8  | b | 4  | 2 |
--   | 9  | b | 4  | 3 |
