-- Tables of example 1 with recorded arrivals. The field "@at" of a row is its arrival time.
-- The result goes to standard output, one line per change.
-- `make demo` generates the files, and so does `.venv/bin/python -m examples.generate`.

CREATE TABLE orders (
  order_id   BIGINT,
  user_id    BIGINT,
  product_id BIGINT,
  num        INT,
  arrived AS PROCTIME()
) WITH (
  'connector' = 'replay',
  'path' = 'examples/data/replay/redelivered_orders.json',
  'format' = 'json'
);

CREATE TABLE product_stats (
  product_id BIGINT,
  buyers     BIGINT,
  orders     BIGINT,
  items      INT,
  PRIMARY KEY (product_id) NOT ENFORCED
) WITH ('connector' = 'print');
