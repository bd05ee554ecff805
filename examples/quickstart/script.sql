CREATE TABLE orders (order_id BIGINT, product_id BIGINT, num INT, arrived AS PROCTIME())
WITH ('connector' = 'replay', 'path' = 'examples/quickstart/orders.json', 'format' = 'json');

CREATE TABLE product_stats (product_id BIGINT, orders BIGINT, items INT) WITH ('connector' = 'print');

INSERT INTO product_stats
SELECT product_id, COUNT(order_id), SUM(num)
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived) AS n FROM orders)
WHERE n = 1
GROUP BY product_id;
