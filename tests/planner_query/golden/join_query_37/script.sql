CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12, 2), o_orderdate DATE, o_orderpriority STRING) WITH ('connector'='filesystem', 'path'='/data/orders', 'format'='json');
CREATE TABLE snk (k BIGINT, d DECIMAL(12, 2)) WITH ('connector'='print');
INSERT INTO snk SELECT o_orderkey, o_totalprice - (SELECT AVG(o_totalprice) FROM orders) FROM orders;
