CREATE TABLE cdc (id INT, k INT, v BIGINT, w STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/cdc.json','format'='debezium-json');
CREATE TABLE u (a INT, x BIGINT, y STRING, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/u.json','format'='json');
CREATE TABLE snk (id INT, x BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, x FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) AS rn FROM (SELECT cdc.id, cdc.k, u.x FROM cdc JOIN u ON cdc.k = u.a)) WHERE rn <= 2;
