CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (k BIGINT, i INT) WITH ('connector'='print');
INSERT INTO snk SELECT DISTINCT e.user_id, u.level FROM events e JOIN users u ON e.user_id = u.id WHERE u.level BETWEEN 2 AND 5;
