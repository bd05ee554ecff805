CREATE TABLE cdc (id INT, k INT, v BIGINT, w STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/cdc.json','format'='debezium-json');
CREATE TABLE snk (id INT, k INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY w ORDER BY v) AS rn FROM cdc) WHERE rn <= k;
