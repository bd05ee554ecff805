CREATE TABLE cdc (id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='debezium-json');
CREATE TABLE pk (a INT, b BIGINT, c STRING, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/pk.json','format'='json');
CREATE TABLE snk (a INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT pk.a, cdc.v FROM pk JOIN cdc ON pk.a = cdc.id;
