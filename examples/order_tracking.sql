-- FLIP-292, example 2: orders wait several days for their logistics records. Logistics records wait at most
-- a day for their orders. The join is one stateful operator with two states, left and right.

INSERT INTO order_tracking
SELECT o.order_id, o.user_id, o.product_id, o.num, l.target
FROM orders AS o
JOIN logistics AS l ON o.order_id = l.order_id;
