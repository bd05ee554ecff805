CREATE TABLE nation (n_nationkey INT NOT NULL, n_name STRING, n_regionkey INT, PRIMARY KEY (n_nationkey) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/nation', 'format'='json');
CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (k BIGINT, s STRING, r STRING) WITH ('connector'='print');
INSERT INTO snk SELECT e.id, u.name, n.n_name FROM events e JOIN users u ON e.user_id = u.id LEFT JOIN nation n ON u.level = n.n_nationkey;
