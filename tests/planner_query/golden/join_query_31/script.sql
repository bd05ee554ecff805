CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (k BIGINT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT a.k, b.n FROM (SELECT user_id AS k FROM events WHERE amount > 3) a LEFT JOIN (SELECT id AS k, level + 1 AS n FROM users) b ON a.k = b.k WHERE b.n IS NULL;
