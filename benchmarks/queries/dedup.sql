CREATE TABLE answers (order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT) WITH ('connector' = 'blackhole')
----
INSERT INTO answers
SELECT order_id, user_id, product_id, num
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived ASC) AS row_num FROM orders)
WHERE row_num = 1
