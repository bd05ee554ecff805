CREATE TABLE v (k INT, w BIGINT, z STRING) WITH ('connector'='filesystem', 'path'='/data/v', 'format'='json');
CREATE TABLE pk2 (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/pk2', 'format'='json');
CREATE TABLE cdc (id INT, k INT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/cdc', 'format'='debezium-json');
CREATE TABLE two (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO two SELECT id, v FROM cdc c WHERE NOT EXISTS (SELECT 1 FROM pk2 p WHERE p.k = c.id);
