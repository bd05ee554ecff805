CREATE TABLE cdc (id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='debezium-json');
CREATE TABLE snk (id INT, k INT, s BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, k, SUM(v) FROM cdc GROUP BY id, k;
