-- Flink's golden case ttl_join_left_short.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE a (id INT, k INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/a.json', 'format'='json');
CREATE TABLE b (k INT, t STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/b.json', 'format'='json');
CREATE TABLE snk (id INT, k INT, t STRING) WITH ('connector'='print');
INSERT INTO snk SELECT /*+ STATE_TTL('a'='1 s','b'='1 h') */ a.id, a.k, b.t FROM a  JOIN b ON a.k = b.k;

-- test: the tables are those of Flink
-- given a
--   | id | k |
--   | 1  | 1 |
-- advance 20 ms
-- given b
--   | k | t |
--   | 1 | x |
-- advance 2500 ms
-- given a
--   | id | k |
--   | 2  | 1 |
-- advance 20 ms
-- given b
--   | k | t |
--   | 2 | y |
-- advance 20 ms
-- given a
--   | id | k |
--   | 3  | 2 |
-- advance 2500 ms
-- given b
--   | k | t |
--   | 1 | z |
-- advance 20 ms
-- given a
--   | id | k |
--   | 4  | 1 |
-- end
-- expect table
--   | id | k | t |
--   | 1  | 1 | x |
--   | 2  | 1 | x |
--   | 3  | 2 | y |
--   | 4  | 1 | z |
