-- Flink's golden case join_inner_append.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE Orders (order_id BIGINT, k BIGINT, product STRING) WITH ('connector'='filesystem', 'path'='/data/orders.json', 'format'='json');
CREATE TABLE Lg (k BIGINT, t STRING) WITH ('connector'='filesystem', 'path'='/data/lg.json', 'format'='json');
CREATE TABLE snk (order_id BIGINT, k BIGINT, product STRING, t STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a.order_id, a.k, a.product, b.t FROM Orders a JOIN Lg b ON a.k = b.k AND a.product <> b.t;

-- test: the tables are those of Flink
-- given Orders
--   | order_id | k    | product |
--   | 1        | 1    | x       |
--   | 2        | 1    | y       |
--   | 1        | 1    | x       |
--   | 3        | NULL | z       |
--   | 4        | 2    | w       |
-- given Lg
--   | k    | t |
--   | 2    | q |
--   | 1    | x |
--   | 1    | n |
--   | NULL | m |
--   | 1    | n |
-- end
-- expect table
--   | order_id | k | product | t |
--   | 1        | 1 | x       | n |
--   | 1        | 1 | x       | n |
--   | 1        | 1 | x       | n |
--   | 1        | 1 | x       | n |
--   | 2        | 1 | y       | n |
--   | 2        | 1 | y       | n |
--   | 2        | 1 | y       | x |
--   | 4        | 2 | w       | q |
