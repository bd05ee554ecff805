CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (k BIGINT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT e.id, e.user_id FROM events e WHERE e.amount > (SELECT AVG(f.amount) FROM events f WHERE f.user_id = e.user_id) AND e.kind IN (SELECT country FROM users);
