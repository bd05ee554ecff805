CREATE TABLE cdc (id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='debezium-json');
CREATE TABLE snk (a INT, b BIGINT, c INT) WITH ('connector'='print');
INSERT INTO snk SELECT x.id, x.v, y.id FROM cdc x JOIN cdc y ON x.k = y.k AND x.id < y.id;
