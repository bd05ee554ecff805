CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(12, 2), o_orderdate DATE, o_orderpriority STRING) WITH ('connector'='filesystem', 'path'='/data/orders', 'format'='json');
CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (k BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT /*+ STATE_TTL('e'='1 d', 'u'='2 d') */ e.id FROM events e, users u WHERE e.user_id = u.id AND e.id IN (SELECT o_custkey FROM orders);
