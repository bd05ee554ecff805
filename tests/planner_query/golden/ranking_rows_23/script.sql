CREATE TABLE cdc (id INT, k INT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/ranking_23_cdc.json','format'='debezium-json');
CREATE TABLE snk (k INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT k, SUM(v) AS s FROM cdc GROUP BY k ORDER BY s LIMIT 2;
