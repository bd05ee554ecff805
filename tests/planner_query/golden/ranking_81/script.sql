CREATE TABLE cdc (id INT, k INT, v BIGINT, w STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/cdc.json','format'='debezium-json');
CREATE TABLE snk (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO snk SELECT k, SUM(v) FROM cdc GROUP BY k LIMIT 3;
