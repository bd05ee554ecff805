CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (s STRING, r STRING) WITH ('connector'='print');
INSERT INTO snk SELECT u.country, MAX(u.name) FROM users u JOIN events e ON u.id = e.user_id WHERE e.amount > (SELECT AVG(amount) FROM events) GROUP BY u.country;
