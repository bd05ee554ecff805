CREATE TABLE customer (c_custkey BIGINT NOT NULL, c_name STRING, c_nationkey INT, c_acctbal DECIMAL(12, 2), c_mktsegment STRING, PRIMARY KEY (c_custkey) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/customer', 'format'='json');
CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12, 2), o_orderdate DATE, o_orderpriority STRING) WITH ('connector'='filesystem', 'path'='/data/orders', 'format'='json');
CREATE TABLE nation (n_nationkey INT NOT NULL, n_name STRING, n_regionkey INT, PRIMARY KEY (n_nationkey) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/nation', 'format'='json');
CREATE TABLE snk (k BIGINT, s STRING) WITH ('connector'='print');
INSERT INTO snk SELECT c.c_custkey, n.n_name FROM customer c JOIN nation n ON c.c_nationkey = n.n_nationkey WHERE c.c_custkey IN (SELECT o_custkey FROM orders WHERE o_orderstatus = 'F');
