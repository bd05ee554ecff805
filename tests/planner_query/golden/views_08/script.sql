CREATE TABLE cdc (id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='debezium-json');
CREATE TABLE snk (a INT, b INT) WITH ('connector'='print');
INSERT INTO snk SELECT x.id, y.id FROM cdc x JOIN cdc y ON x.id = y.k JOIN cdc z ON y.id = z.k;
