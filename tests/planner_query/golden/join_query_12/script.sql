CREATE TABLE users (id BIGINT, name STRING, country STRING, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/users', 'format'='debezium-json');
CREATE TABLE snk (k BIGINT, s STRING) WITH ('connector'='print');
INSERT INTO snk SELECT id, name FROM users WHERE level = (SELECT MAX(level) FROM users);
