CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (k BIGINT) WITH ('connector'='print');
INSERT INTO snk WITH q AS (SELECT user_id FROM events WHERE amount > (SELECT AVG(amount) FROM events)) SELECT id FROM users WHERE id IN (SELECT user_id FROM q) AND id NOT IN (SELECT user_id FROM q WHERE user_id > 3);
