-- FLIP-292, example 2: orders wait seven days for their logistics records, logistics records twelve hours for orders.

CREATE TABLE orders (order_id BIGINT, num INT);
CREATE TABLE logistics (order_id BIGINT, target STRING);
CREATE TABLE order_tracking (order_id BIGINT, num INT, target STRING);

INSERT INTO order_tracking
SELECT /*+ STATE_TTL('o' = '7 d', 'l' = '12 h') */ o.order_id, o.num, l.target
FROM orders AS o
JOIN logistics AS l ON o.order_id = l.order_id;

-- test: an order waits seven days for its logistics record
-- given orders
--   | order_id | num |
--   | 1        | 20  |
--   | 2        | 5   |
-- expect state join.left: 2 rows
-- advance 6 d 23 h 59 min 59 s
-- given logistics
--   | order_id | target |
--   | 1        | Berlin |
-- expect rows
--   | order_id | num | target |
--   | 1        | 20  | Berlin |
-- advance 1 s
-- given logistics
--   | order_id | target |
--   | 2        | Paris  |
-- expect rows
-- expect state join.left: 0 rows
-- expect state join.right: 2 rows

-- test: a logistics record waits twelve hours for its order
-- given logistics
--   | order_id | target |
--   | 1        | Berlin |
--   | 2        | Paris  |
-- advance 11 h 59 min
-- given orders
--   | order_id | num |
--   | 1        | 20  |
-- expect rows
--   | order_id | num | target |
--   | 1        | 20  | Berlin |
-- advance 1 min
-- given orders
--   | order_id | num |
--   | 2        | 5   |
-- expect rows
-- expect state join.right: 0 rows

-- test: each order gets the records of its own id, in any order
-- given orders
--   | order_id | num |
--   | 1        | 20  |
--   | 2        | 5   |
--   | 2        | 6   |
--   | NULL     | 7   |
-- given logistics
--   | order_id | target |
--   | 2        | Paris  |
--   | 3        | Rome   |
--   | NULL     | Oslo   |
-- expect rows
--   | order_id | num | target |
--   | 2        | 5   | Paris  |
--   | 2        | 6   | Paris  |
