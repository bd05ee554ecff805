CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12, 2), o_orderdate DATE, o_orderpriority STRING) WITH ('connector'='filesystem', 'path'='/data/orders', 'format'='json');
CREATE TABLE snk (k BIGINT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk WITH a AS (SELECT o_custkey AS k, COUNT(*) AS n FROM orders GROUP BY o_custkey) SELECT x.k, y.n FROM a x JOIN a y ON x.k = y.k WHERE x.n > 2 AND y.n < 10;
