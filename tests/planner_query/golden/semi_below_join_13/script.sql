CREATE TABLE customer (c_custkey BIGINT NOT NULL, c_name STRING, c_nationkey INT, c_acctbal DECIMAL(12, 2), c_mktsegment STRING, PRIMARY KEY (c_custkey) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/customer', 'format'='json');
CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12, 2), o_orderdate DATE, o_orderpriority STRING) WITH ('connector'='filesystem', 'path'='/data/orders', 'format'='json');
CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE VIEW order_totals AS SELECT o_custkey, COUNT(*) AS cnt, SUM(o_totalprice) AS total FROM orders GROUP BY o_custkey;
CREATE TABLE snk (k BIGINT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT t.o_custkey, t.cnt FROM order_totals t JOIN customer c ON t.o_custkey = c.c_custkey WHERE t.o_custkey IN (SELECT user_id FROM events WHERE kind = 'buy');
