CREATE TABLE cdc (id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='debezium-json');
CREATE TABLE snk (a INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT cdc.id, w.s FROM cdc JOIN (SELECT k, SUM(v) AS s FROM cdc GROUP BY k) w ON cdc.k = w.k;
