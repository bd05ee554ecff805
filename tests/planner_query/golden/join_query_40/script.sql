CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (k BIGINT, s STRING) WITH ('connector'='print');
INSERT INTO snk SELECT x.id, x.name FROM (SELECT * FROM (SELECT * FROM users WHERE level > 1) WHERE level < 9) x WHERE EXISTS (SELECT 1 FROM (SELECT user_id FROM events WHERE amount > 0) y WHERE y.user_id = x.id);
