CREATE TABLE cdc (id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='debezium-json');
CREATE TABLE snk (a INT, b BIGINT) WITH ('connector'='blackhole');
INSERT INTO snk SELECT k, v FROM cdc WHERE v > 3;
