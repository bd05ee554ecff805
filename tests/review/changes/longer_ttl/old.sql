CREATE TABLE orders (order_id BIGINT, user_id BIGINT, num INT) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset');
CREATE TABLE logistics (order_id BIGINT, target STRING) WITH (
  'connector' = 'kafka', 'topic' = 'logistics', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset');
CREATE TABLE order_tracking (order_id BIGINT, user_id BIGINT, num INT, target STRING) WITH (
  'connector' = 'kafka', 'topic' = 'tracking', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json');

INSERT INTO order_tracking
SELECT /*+ STATE_TTL('o' = '7 d', 'l' = '12 h') */ o.order_id, o.user_id, o.num, l.target
FROM orders AS o JOIN logistics AS l ON o.order_id = l.order_id;
