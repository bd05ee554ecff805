CREATE TABLE cdc (id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='debezium-json');
CREATE TABLE dim (id INT, cat STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/d.json','format'='json');
CREATE TABLE snk (a INT) WITH ('connector'='print');
INSERT INTO snk SELECT DISTINCT cdc.k FROM cdc JOIN dim ON cdc.id = dim.id;
