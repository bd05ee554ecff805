CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (k BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id FROM users WHERE id IN (VALUES 1, 2, 3);
