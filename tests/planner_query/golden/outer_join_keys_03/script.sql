CREATE TABLE v (k INT, w BIGINT, z STRING) WITH ('connector'='filesystem', 'path'='/data/v', 'format'='json');
CREATE TABLE pk2 (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/pk2', 'format'='json');
CREATE TABLE cdc (id INT, k INT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/cdc', 'format'='debezium-json');
CREATE TABLE updid (id INT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO updid SELECT p.k, c.v FROM pk2 p LEFT JOIN cdc c ON p.k = c.id;
