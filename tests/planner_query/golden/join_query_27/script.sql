CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (k BIGINT, s STRING, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT u.id, u.name, t.n FROM users u LEFT JOIN (SELECT user_id, COUNT(*) AS n FROM events WHERE kind = 'buy' GROUP BY user_id) t ON u.id = t.user_id;
