CREATE TABLE cdc (id INT, k INT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/ranking_22_cdc.json','format'='debezium-json');
CREATE TABLE snk (id INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, v FROM cdc ORDER BY v DESC, id LIMIT 3;
