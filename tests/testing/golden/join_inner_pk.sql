-- Flink's golden case join_inner_pk.

SET 'table.local-time-zone' = 'UTC';
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE Orders (order_id BIGINT, line_order_id BIGINT, product STRING, PRIMARY KEY (order_id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/orders.json', 'format'='debezium-json');
CREATE TABLE LineOrders (line_order_id BIGINT, logistics_target STRING, logistics_time STRING, PRIMARY KEY (line_order_id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/line.json', 'format'='debezium-json');
CREATE TABLE snk (order_id BIGINT, line_order_id BIGINT, product STRING, logistics_target STRING, logistics_time STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a.order_id, a.line_order_id, a.product, b.logistics_target, b.logistics_time FROM Orders AS a JOIN LineOrders AS b ON a.line_order_id = b.line_order_id;

-- test: the tables are those of Flink
-- given Orders
--      | order_id | line_order_id | product |
--   +I | 1        | 11            | p1      |
--   +I | 2        | 12            | p2      |
--   -U | 1        | 11            | p1      |
--   +U | 1        | 13            | p1      |
--   +I | 3        | 11            | p3      |
--   -D | 2        | 12            | p2      |
--   +I | 4        | NULL          | p4      |
-- given LineOrders
--      | line_order_id | logistics_target | logistics_time |
--   +I | 11            | hz               | t1             |
--   -U | 11            | hz               | t1             |
--   +U | 11            | bj               | t2             |
--   +I | 12            | sh               | t3             |
--   +I | 13            | sz               | t4             |
--   -D | 11            | bj               | t2             |
-- end
-- expect table
--   | order_id | line_order_id | product | logistics_target | logistics_time |
--   | 1        | 13            | p1      | sz               | t4             |
