CREATE TABLE answers (product_id BIGINT, buyers BIGINT, orders BIGINT, items INT) WITH ('connector' = 'blackhole')
----
INSERT INTO answers
SELECT product_id, COUNT(DISTINCT user_id), COUNT(order_id), SUM(num)
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived ASC) AS row_num FROM orders)
WHERE row_num = 1
GROUP BY product_id
