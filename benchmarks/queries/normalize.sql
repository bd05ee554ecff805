SET 'table.exec.source.cdc-events-duplicate' = 'true'
----
CREATE TABLE answers (order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, ts TIMESTAMP(3)) WITH ('connector' = 'blackhole')
----
INSERT INTO answers
SELECT order_id, user_id, product_id, num, ts FROM order_changes
