CREATE TABLE orders (
  order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, ts TIMESTAMP(3), arrived AS PROCTIME()
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/orders', 'format' = 'json'${SOURCE_OPTIONS})
----
CREATE TABLE logistics (
  order_id BIGINT, target STRING, ts TIMESTAMP(3)
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/logistics', 'format' = 'json'${SOURCE_OPTIONS})
----
CREATE TABLE order_changes (
  order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, ts TIMESTAMP(3), PRIMARY KEY (order_id) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = '${DATA}/order_changes', 'format' = 'debezium-json'${SOURCE_OPTIONS})
