CREATE TABLE cdc (id INT, k INT, v BIGINT, w STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/cdc.json','format'='debezium-json');
CREATE TABLE snk (id INT, v BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY r1) AS rn FROM (SELECT id, k, v, r1 FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY v DESC) AS r1 FROM cdc) WHERE r1 <= 9)) WHERE rn <= 2;
