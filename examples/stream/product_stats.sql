-- FLIP-292, example 1, over a stream: each order counts once, per product, with the name that the product has now.

INSERT INTO product_stats
SELECT s.product_id, p.name, s.buyers, s.orders, s.items
FROM (
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
  GROUP BY product_id
) AS s
JOIN products AS p ON s.product_id = p.product_id;
