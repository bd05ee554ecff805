CREATE TABLE cdc2 (id INT, k INT, v BIGINT, w STRING) WITH ('connector'='filesystem','path'='${DIR}/cdc2.json','format'='debezium-json');
CREATE TABLE snk (k INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS rn FROM cdc2) WHERE rn <= 2;
