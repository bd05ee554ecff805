CREATE TABLE customers (
  customer_id BIGINT, account_id BIGINT, city STRING, PRIMARY KEY (customer_id) NOT ENFORCED
) WITH (
  'connector' = 'postgres-cdc', 'hostname' = 'db', 'username' = 'shop', 'password' = '${env:PGPASSWORD}',
  'database-name' = 'shop', 'schema-name' = 'public', 'table-name' = 'customers', 'slot.name' = 'shop');
CREATE TABLE orders (order_id BIGINT, customer_id BIGINT, num INT) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset');
CREATE TABLE enriched (order_id BIGINT, num INT, city STRING) WITH ('connector' = 'print');

INSERT INTO enriched
SELECT /*+ STATE_TTL('o' = '7 d') */ o.order_id, o.num, c.city
FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id;
