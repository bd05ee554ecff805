CREATE TABLE cdc (id INT, k INT, v BIGINT, w STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/cdc.json','format'='debezium-json');
CREATE TABLE snk (k INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT k, COUNT(*) FROM (SELECT k FROM cdc LIMIT 5) GROUP BY k;
