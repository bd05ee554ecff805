CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12, 2), o_orderdate DATE, o_orderpriority STRING) WITH ('connector'='filesystem', 'path'='/data/orders', 'format'='json');
CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE snk (k BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT /*+ STATE_TTL('e'='1 d') */ e.id FROM events e WHERE EXISTS (SELECT /*+ STATE_TTL('o'='1 d') */ 1 FROM orders o WHERE o.o_custkey = e.id);
