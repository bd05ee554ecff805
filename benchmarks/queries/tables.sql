CREATE TABLE orders (
  order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, ts TIMESTAMP(3), arrived AS PROCTIME()
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders', 'format' = 'json'${SOURCE_OPTIONS})
----
CREATE TABLE logistics (
  order_id BIGINT, target STRING, ts TIMESTAMP(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/logistics', 'format' = 'json'${SOURCE_OPTIONS})
