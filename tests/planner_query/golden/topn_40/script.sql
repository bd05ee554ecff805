CREATE TABLE cdc2 (id INT, k INT, v BIGINT, w STRING) WITH ('connector'='filesystem','path'='${DIR}/cdc2.json','format'='debezium-json');
CREATE TABLE snk (id INT, k INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM cdc2) WHERE rn = 1;
