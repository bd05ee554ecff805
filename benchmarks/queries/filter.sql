CREATE TABLE answers (order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT) WITH ('connector' = 'blackhole')
----
INSERT INTO answers
SELECT order_id, user_id, product_id, num * 2 FROM orders WHERE num > 50
