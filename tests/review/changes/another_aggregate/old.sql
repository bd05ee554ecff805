CREATE TABLE orders (order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, arrived AS PROCTIME()) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset');
CREATE TABLE product_stats (product_id BIGINT, orders BIGINT, items INT, PRIMARY KEY (product_id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 'product-stats', 'properties.bootstrap.servers' = 'kafka:9092',
  'key.format' = 'json', 'value.format' = 'json');

-- Orders can be delivered more than once.
INSERT INTO product_stats
SELECT product_id, COUNT(order_id), SUM(num)
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY arrived) AS n FROM orders)
WHERE n = 1
GROUP BY product_id;
