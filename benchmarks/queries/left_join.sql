CREATE TABLE answers (
  order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, target STRING, ts TIMESTAMP(3)
) WITH ('connector' = 'blackhole')
----
INSERT INTO answers
SELECT /*+ STATE_TTL('o' = '7 d', 'l' = '1 d') */ o.order_id, o.user_id, o.product_id, o.num, l.target, l.ts
FROM orders AS o LEFT JOIN logistics AS l ON o.order_id = l.order_id
