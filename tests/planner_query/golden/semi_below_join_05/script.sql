CREATE TABLE customer (c_custkey BIGINT NOT NULL, c_name STRING, c_nationkey INT, c_acctbal DECIMAL(12, 2), c_mktsegment STRING, PRIMARY KEY (c_custkey) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/customer', 'format'='json');
CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (k BIGINT, s STRING) WITH ('connector'='print');
INSERT INTO snk SELECT e.id, u.name FROM events e JOIN users u ON e.user_id = u.id WHERE u.name IN (SELECT c_name FROM customer WHERE c_mktsegment = 'X');
