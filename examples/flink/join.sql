-- Flink 2.3 compiled this into plan.json.
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE Orders (order_id BIGINT, line_id BIGINT, product STRING)
  WITH ('connector' = 'filesystem', 'path' = 'examples/flink/orders.json', 'format' = 'json');

CREATE TABLE Logistics (line_id BIGINT, target STRING)
  WITH ('connector' = 'filesystem', 'path' = 'examples/flink/logistics.json', 'format' = 'json');

CREATE TABLE shipped (order_id BIGINT, product STRING, target STRING) WITH ('connector' = 'print');

INSERT INTO shipped
SELECT o.order_id, o.product, l.target FROM Orders AS o JOIN Logistics AS l ON o.line_id = l.line_id;
