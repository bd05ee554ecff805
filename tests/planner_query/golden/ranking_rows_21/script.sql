CREATE TABLE cdc (id INT, k INT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/ranking_21_cdc.json','format'='debezium-json');
CREATE TABLE snk (id INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS rn FROM cdc) WHERE rn = 1;
