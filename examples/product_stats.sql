-- FLIP-292, example 1: orders are delivered more than once; count each once, then per product.
-- Two stateful operators: the deduplication remembers order ids, the aggregation remembers products.

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
