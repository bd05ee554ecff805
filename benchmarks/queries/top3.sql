CREATE TABLE answers (product_id BIGINT, order_id BIGINT, num INT, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole')
----
INSERT INTO answers
SELECT product_id, order_id, num, ts
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY product_id ORDER BY num DESC, ts DESC) AS row_num FROM orders)
WHERE row_num <= 3
