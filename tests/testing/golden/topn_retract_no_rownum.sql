-- Flink's golden case topn_retract_no_rownum.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE src (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='/data/src.json', 'format'='debezium-json');
CREATE TABLE snk (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO snk SELECT id, g, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC) AS rn FROM src) WHERE rn <= 3;

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
-- end
-- expect table
--   | id | g | v |
--   | 3  | a | 2 |
--   | 4  | a | 1 |
--   | 5  | b | 7 |
--   | 6  | b | 2 |
--   | 7  | a | 4 |
