CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, h DATE) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE cdc (id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='debezium-json');
CREATE TABLE snk (a INT, c BIGINT, d BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT t.a, SUM(t.b), COUNT(*) FROM t JOIN cdc ON t.a = cdc.id GROUP BY t.a;
