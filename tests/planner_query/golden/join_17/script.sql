CREATE TABLE cdc (id INT, k INT, v BIGINT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='debezium-json');
CREATE TABLE snk (x INT, y BIGINT, z STRING) WITH ('connector'='print');
INSERT INTO snk SELECT c.id, c.v, d.s FROM cdc c JOIN cdc d ON c.id = d.id AND c.v > d.v;
