-- Tables of example 2 with recorded arrivals. The field "@at" of a row is its arrival time.
-- The result goes to standard output, one line per change.
-- `make demo` generates the files, and so does `.venv/bin/python -m examples.generate`.

CREATE TABLE orders (
  order_id   BIGINT,
  user_id    BIGINT,
  product_id BIGINT,
  num        INT
) WITH (
  'connector' = 'replay',
  'path' = 'examples/data/replay/orders.json',
  'format' = 'json'
);

CREATE TABLE logistics (
  order_id BIGINT,
  target   STRING
) WITH (
  'connector' = 'replay',
  'path' = 'examples/data/replay/logistics.json',
  'format' = 'json'
);

CREATE TABLE order_tracking (
  order_id   BIGINT,
  user_id    BIGINT,
  product_id BIGINT,
  num        INT,
  target     STRING
) WITH ('connector' = 'print');
