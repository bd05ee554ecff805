CREATE TABLE v (k INT, w BIGINT, z STRING) WITH ('connector'='filesystem', 'path'='/data/v', 'format'='json');
CREATE TABLE pk2 (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/pk2', 'format'='json');
CREATE TABLE cdc (id INT, k INT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/cdc', 'format'='debezium-json');
CREATE TABLE four (a INT, b BIGINT, c INT, d BIGINT) WITH ('connector'='print');
INSERT INTO four SELECT c.id, c.v, p.k, p.v FROM cdc c FULL JOIN pk2 p ON c.id = p.k;
