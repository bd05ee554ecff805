SET 'table.optimizer.distinct-agg.split.enabled' = 'true'
----
CREATE TABLE answers (product_id BIGINT, buyers BIGINT, orders BIGINT) WITH ('connector' = 'blackhole')
----
INSERT INTO answers
SELECT product_id, COUNT(DISTINCT user_id), COUNT(*) FROM orders GROUP BY product_id
