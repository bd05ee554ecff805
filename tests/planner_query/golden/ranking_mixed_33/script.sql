CREATE TABLE cdc (id INT, k INT, v BIGINT, w STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/cdc.json','format'='debezium-json');
CREATE TABLE snk (k INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT k, v FROM cdc WHERE k > 1 ORDER BY v DESC, k LIMIT 3 OFFSET 1;
