SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '1 s';
SET 'table.exec.mini-batch.size' = '10';
CREATE TABLE cdc (id INT, k INT, v BIGINT, w STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/cdc.json','format'='debezium-json');
CREATE TABLE snk (id INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM cdc) WHERE rn <= 2;
