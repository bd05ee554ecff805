CREATE TABLE customer (c_custkey BIGINT NOT NULL, c_name STRING, c_nationkey INT, c_acctbal DECIMAL(12, 2), c_mktsegment STRING, PRIMARY KEY (c_custkey) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/customer', 'format'='json');
CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12, 2), o_orderdate DATE, o_orderpriority STRING) WITH ('connector'='filesystem', 'path'='/data/orders', 'format'='json');
CREATE VIEW big_orders AS SELECT o_orderkey, o_custkey, o_totalprice FROM orders WHERE o_totalprice > 1000;
CREATE VIEW order_totals AS SELECT o_custkey, COUNT(*) AS cnt, SUM(o_totalprice) AS total FROM orders GROUP BY o_custkey;
CREATE VIEW rich AS SELECT t.o_custkey, t.total, c.c_name FROM order_totals t JOIN customer c ON t.o_custkey = c.c_custkey WHERE t.total > 100;
CREATE TABLE snk (k BIGINT, s STRING) WITH ('connector'='print');
INSERT INTO snk SELECT o_custkey, c_name FROM rich WHERE o_custkey NOT IN (SELECT o_custkey FROM big_orders WHERE o_custkey IS NOT NULL);
