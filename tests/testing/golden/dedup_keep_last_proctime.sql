-- Flink's golden case dedup_keep_last_proctime.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE orders (order_id BIGINT, user_id BIGINT, num INT, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='/data/orders.json', 'format'='json');
CREATE TABLE snk (order_id BIGINT, user_id BIGINT, num INT) WITH ('connector'='print');
INSERT INTO snk SELECT order_id, user_id, num FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY pt DESC) AS rn FROM orders) WHERE rn = 1;

-- test: the tables are those of Flink
-- given orders
--   | order_id | user_id | num |
--   | 1        | 10      | 1   |
--   | 2        | 10      | 2   |
--   | 1        | 11      | 3   |
--   | 1        | 11      | 3   |
--   | 1        | 13      | 5   |
--   | 2        | 14      | 6   |
--   | 3        | 15      | 7   |
--   | NULL     | 17      | 9   |
--   | NULL     | 18      | 10  |
-- end
-- expect table
--   | order_id | user_id | num |
--   | 1        | 13      | 5   |
--   | 2        | 14      | 6   |
--   | 3        | 15      | 7   |
--   | NULL     | 18      | 10  |
