-- FLIP-292, example 1: orders can be delivered more than once. Each order counts once, within six hours.

CREATE TABLE orders (order_id BIGINT, user_id BIGINT, product STRING, num INT, arrived AS PROCTIME());
CREATE TABLE product_stats (
  product STRING, buyers BIGINT, orders BIGINT, items INT,
  PRIMARY KEY (product) NOT ENFORCED
);

CREATE VIEW distinct_orders AS
SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived ASC) AS n FROM orders
) WHERE n = 1;

-- Each order is remembered for six hours.
-- ttl deduplicate 6 h

INSERT INTO product_stats
SELECT /*+ STATE_TTL('distinct_orders' = '30 d') */ product, COUNT(DISTINCT user_id), COUNT(order_id), SUM(num)
FROM distinct_orders
GROUP BY product;

-- test: an order that is delivered again within six hours counts once
-- given orders
--   | order_id | user_id | product | num |
--   | 1        | 7       | tea     | 2   |
--   | 2        | 7       | tea     | 1   |
-- advance 5 h 59 min
-- given orders
--   | order_id | user_id | product | num |
--   | 1        | 7       | tea     | 9   |
--   | 3        | 8       | milk    | 4   |
-- expect table
--   | product | buyers | orders | items |
--   | tea     | 1      | 2      | 3     |
--   | milk    | 1      | 1      | 4     |
-- expect state deduplicate: 3 rows

-- test: after six hours the row of the order has expired, and it counts again
-- given orders
--   | order_id | user_id | product | num |
--   | 1        | 7       | tea     | 2   |
-- advance 6 h
-- expect state deduplicate: 0 rows
-- given orders
--   | order_id | user_id | product | num |
--   | 1        | 7       | tea     | 2   |
-- expect changelog
--      | product | buyers | orders | items |
--   -U | tea     | 1      | 1      | 2     |
--   +U | tea     | 1      | 2      | 4     |

-- test: the figures of a product are kept for thirty days after its last order
-- given orders
--   | order_id | user_id | product | num |
--   | 1        | 7       | tea     | 2   |
-- advance 29 d 23 h
-- given orders
--   | order_id | user_id | product | num |
--   | 2        | 8       | tea     | 1   |
-- expect table
--   | product | buyers | orders | items |
--   | tea     | 2      | 2      | 3     |
-- advance 30 d
-- given orders
--   | order_id | user_id | product | num |
--   | 3        | 9       | tea     | 4   |
-- expect table
--   | product | buyers | orders | items |
--   | tea     | 1      | 1      | 4     |
