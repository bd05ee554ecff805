CREATE TABLE cdc (id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='debezium-json');
CREATE TABLE snk (x INT, y INT, z BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT k, id, COUNT(*) FROM cdc GROUP BY k, id;
