CREATE TABLE customer (c_custkey BIGINT NOT NULL, c_name STRING, c_nationkey INT, c_acctbal DECIMAL(12, 2), c_mktsegment STRING, PRIMARY KEY (c_custkey) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/customer', 'format'='json');
CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12, 2), o_orderdate DATE, o_orderpriority STRING) WITH ('connector'='filesystem', 'path'='/data/orders', 'format'='json');
CREATE TABLE snk (k BIGINT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT c_custkey, SUM(o_orderkey) FROM customer JOIN orders ON o_custkey = c_custkey GROUP BY c_custkey;
