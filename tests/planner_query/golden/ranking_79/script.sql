CREATE TABLE cdc (id INT, k INT, v BIGINT, w STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/cdc.json','format'='debezium-json');
CREATE TABLE snk (id INT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO snk SELECT id, v FROM cdc ORDER BY id LIMIT 3;
