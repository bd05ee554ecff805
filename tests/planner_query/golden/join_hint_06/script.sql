CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12, 2), o_orderdate DATE, o_orderpriority STRING) WITH ('connector'='filesystem', 'path'='/data/orders', 'format'='json');
CREATE TABLE snk (k BIGINT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT /*+ STATE_TTL('t'='1 d') */ o_custkey, COUNT(*) FROM (SELECT /*+ STATE_TTL('orders'='3 d') */ o_custkey, COUNT(*) AS n FROM orders GROUP BY o_custkey) t GROUP BY o_custkey;
