-- Tables of `make demo-stream`. Orders come from Kafka, and products from PostgreSQL with their changes. The result is
-- a table in PostgreSQL. The broker, the database and the password are references: a plan holds no secret.

CREATE TABLE orders (
  order_id   BIGINT,
  user_id    BIGINT,
  product_id BIGINT,
  num        INT,
  arrived AS PROCTIME()
) WITH (
  'connector' = 'kafka',
  'topic' = 'orders',
  'properties.bootstrap.servers' = '${env:KAFKA}',
  'properties.group.id' = 'demo',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE products (
  product_id BIGINT,
  name       STRING,
  PRIMARY KEY (product_id) NOT ENFORCED
) WITH (
  'connector' = 'postgres-cdc',
  'hostname' = '${env:PGHOST}',
  'port' = '${env:PGPORT}',
  'username' = '${env:PGUSER}',
  'password' = '${env:PGPASSWORD}',
  'database-name' = 'shop',
  'schema-name' = 'public',
  'table-name' = 'products',
  'slot.name' = 'demo'
);

CREATE TABLE product_stats (
  product_id BIGINT,
  name       STRING,
  buyers     BIGINT,
  orders     BIGINT,
  items      INT,
  PRIMARY KEY (product_id) NOT ENFORCED
) WITH (
  'connector' = 'jdbc',
  'url' = 'jdbc:postgresql://${env:PGHOST}:${env:PGPORT}/shop',
  'username' = '${env:PGUSER}',
  'password' = '${env:PGPASSWORD}',
  'table-name' = 'product_stats'
);
