CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12, 2), o_orderdate DATE, o_orderpriority STRING) WITH ('connector'='filesystem', 'path'='/data/orders', 'format'='json');
CREATE VIEW order_totals AS SELECT o_custkey, COUNT(*) AS cnt, SUM(o_totalprice) AS total FROM orders GROUP BY o_custkey;
CREATE TABLE snk (k BIGINT, d DECIMAL(12, 2)) WITH ('connector'='print');
INSERT INTO snk SELECT o.o_orderkey, o.o_totalprice / NULLIF(t.total, 0) FROM orders o JOIN order_totals t ON o.o_custkey = t.o_custkey;
