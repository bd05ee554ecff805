-- Flink's golden case topn_updatefast_with_rownum.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (u INT, g STRING) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='json');
CREATE TABLE snk (g STRING, u INT, c BIGINT, rn BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT g, u, c, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY c DESC) AS rn FROM (SELECT g, u, COUNT(*) AS c FROM src GROUP BY g, u)) WHERE rn <= 3;

-- test: the tables are those of Flink
-- given src
--   | u | g |
--   | 1 | a |
--   | 2 | a |
--   | 2 | a |
--   | 3 | a |
--   | 4 | a |
--   | 4 | a |
--   | 4 | a |
--   | 1 | b |
--   | 5 | a |
--   | 5 | a |
--   | 3 | a |
--   | 3 | a |
--   | 3 | a |
--   | 5 | a |
--   | 5 | a |
--   | 5 | a |
-- end
-- expect table
--   | g | u | c | rn |
--   | a | 3 | 4 | 2  |
--   | a | 4 | 3 | 3  |
--   | a | 5 | 5 | 1  |
--   | b | 1 | 1 | 1  |
