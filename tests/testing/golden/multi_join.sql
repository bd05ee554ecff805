-- Flink's golden case multi_join.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

SET 'table.optimizer.multi-join.enabled'='true';
CREATE TABLE a (id INT, k INT) WITH ('connector'='filesystem', 'path'='/data/a.json', 'format'='json');
CREATE TABLE b (k INT, t STRING) WITH ('connector'='filesystem', 'path'='/data/b.json', 'format'='json');
CREATE TABLE c (k INT, z STRING) WITH ('connector'='filesystem', 'path'='/data/c.json', 'format'='json');
CREATE TABLE snk (id INT, t STRING, z STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a.id, b.t, c.z FROM a JOIN b ON a.k=b.k LEFT JOIN c ON a.k=c.k;

-- test: the tables are those of Flink
-- given a
--   | id | k |
--   | 1  | 1 |
--   | 2  | 2 |
--   | 3  | 1 |
-- given b
--   | k | t |
--   | 1 | x |
--   | 2 | y |
-- given c
--   | k | z |
--   | 2 | p |
--   | 1 | q |
-- end
-- expect table
--   | id | t | z |
--   | 1  | x | q |
--   | 2  | y | p |
--   | 3  | x | q |
