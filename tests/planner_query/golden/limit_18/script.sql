CREATE TABLE cdc2 (id INT, k INT, v BIGINT, w STRING) WITH ('connector'='filesystem','path'='${DIR}/cdc2.json','format'='debezium-json');
CREATE TABLE snk (id INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, v FROM cdc2 ORDER BY v LIMIT 1;
