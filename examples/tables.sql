-- Tables of both examples. `make demo` generates their files, and so does `.venv/bin/python -m examples.generate`.

CREATE TABLE orders (
  order_id   BIGINT,
  user_id    BIGINT,
  product_id BIGINT,
  num        INT,
  ts         TIMESTAMP(3),
  arrived AS PROCTIME()
) WITH (
  'connector' = 'filesystem',
  'path' = 'examples/data/orders',
  'format' = 'json'
);

CREATE TABLE logistics (
  order_id BIGINT,
  target   STRING,
  ts       TIMESTAMP(3)
) WITH (
  'connector' = 'filesystem',
  'path' = 'examples/data/logistics',
  'format' = 'json'
);

-- A result with updates is written as Debezium events, and an append-only result as plain JSON.
CREATE TABLE product_stats (
  product_id BIGINT,
  buyers     BIGINT,
  orders     BIGINT,
  items      INT,
  PRIMARY KEY (product_id) NOT ENFORCED
) WITH (
  'connector' = 'filesystem',
  'path' = 'examples/out/product_stats',
  'format' = 'debezium-json'
);

CREATE TABLE order_tracking (
  order_id   BIGINT,
  user_id    BIGINT,
  product_id BIGINT,
  num        INT,
  target     STRING
) WITH (
  'connector' = 'filesystem',
  'path' = 'examples/out/order_tracking',
  'format' = 'json'
);
