-- Flink's golden case dedup_keep_first_proctime.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';
CREATE TABLE orders (
  order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT,
  proctime AS PROCTIME()
) WITH ('connector'='filesystem', 'path'='/data/orders.json', 'format'='json');
CREATE TABLE dws_trd_product_stats (
  product_id BIGINT, order_user_cnt BIGINT, order_cnt BIGINT, total_sum BIGINT
) WITH ('connector'='print');
INSERT INTO dws_trd_product_stats
SELECT product_id, COUNT(DISTINCT user_id) AS order_user_cnt, COUNT(order_id) AS order_cnt, SUM(num) AS total_sum
FROM (
  SELECT * FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY proctime ASC) AS row_num FROM orders
  ) WHERE row_num = 1
) tmp GROUP BY product_id;

-- test: the tables are those of Flink
-- given orders
--   | order_id | user_id | product_id | num  |
--   | 1        | 10      | 100        | 2    |
--   | 2        | 10      | 100        | 3    |
--   | 1        | 10      | 100        | 2    |
--   | 3        | 11      | 100        | 5    |
--   | 4        | 11      | 101        | 1    |
--   | 2        | 12      | 101        | 7    |
--   | 5        | 12      | 101        | NULL |
--   | NULL     | 13      | 101        | 4    |
--   | NULL     | 14      | 102        | 4    |
--   | 6        | NULL    | 103        | NULL |
-- end
-- expect table
--   | product_id | order_user_cnt | order_cnt | total_sum |
--   | 100        | 2              | 3         | 10        |
--   | 101        | 3              | 2         | 5         |
--   | 103        | 0              | 1         | NULL      |
