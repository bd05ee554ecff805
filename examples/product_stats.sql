-- FLIP-292, example 1: orders can be delivered more than once. Count each order once, per product.
-- There are two stateful operators: the deduplication remembers order ids, and the aggregation remembers products.

INSERT INTO product_stats
SELECT
  product_id,
  COUNT(DISTINCT user_id) AS buyers,
  COUNT(order_id) AS orders,
  SUM(num) AS items
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived ASC) AS row_num
  FROM orders
)
WHERE row_num = 1
GROUP BY product_id;
