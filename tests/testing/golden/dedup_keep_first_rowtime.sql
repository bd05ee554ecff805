-- Flink's golden case dedup_keep_first_rowtime.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE orders (order_id BIGINT, user_id BIGINT, num INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem', 'path'='/data/orders.json', 'format'='json', 'json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (order_id BIGINT, user_id BIGINT, num INT, ts TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT order_id, user_id, num, ts FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY ts ASC) AS rn FROM orders) WHERE rn = 1;

-- test: the tables are those of Flink
-- given orders
--   | order_id | user_id | num | ts                  |
--   | 1        | 10      | 1   | 2024-01-01T00:00:01 |
-- advance 20 ms
-- given orders
--   | order_id | user_id | num | ts                  |
--   | 2        | 10      | 2   | 2024-01-01T00:00:02 |
-- advance 20 ms
-- given orders
--   | order_id | user_id | num | ts                  |
--   | 1        | 11      | 3   | 2024-01-01T00:00:00 |
-- advance 20 ms
-- given orders
--   | order_id | user_id | num | ts                  |
--   | 1        | 12      | 4   | 2024-01-01T00:00:03 |
-- advance 20 ms
-- given orders
--   | order_id | user_id | num | ts                  |
--   | 1        | 13      | 5   | 2024-01-01T00:00:00 |
-- advance 20 ms
-- given orders
--   | order_id | user_id | num | ts                  |
--   | 2        | 14      | 6   | 2024-01-01T00:00:01 |
-- advance 20 ms
-- given orders
--   | order_id | user_id | num | ts                  |
--   | 3        | 15      | 7   | 2024-01-01T00:00:10 |
-- advance 20 ms
-- given orders
--   | order_id | user_id | num | ts                  |
--   | 3        | 16      | 8   | 2024-01-01T00:00:01 |
-- advance 20 ms
-- given orders
--   | order_id | user_id | num | ts                  |
--   | NULL     | 17      | 9   | 2024-01-01T00:00:11 |
-- advance 20 ms
-- given orders
--   | order_id | user_id | num | ts                  |
--   | NULL     | 18      | 10  | 2024-01-01T00:00:12 |
-- advance 20 ms
-- end
-- expect table
--   | order_id | user_id | num | ts                  |
--   | 1        | 11      | 3   | 2024-01-01 00:00:00 |
--   | 2        | 14      | 6   | 2024-01-01 00:00:01 |
--   | 3        | 15      | 7   | 2024-01-01 00:00:10 |
--   | NULL     | 17      | 9   | 2024-01-01 00:00:11 |
