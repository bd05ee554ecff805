CREATE TABLE cdc (id INT, k INT, v BIGINT, w STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/cdc.json','format'='debezium-json');
CREATE TABLE t (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10,2), f TIMESTAMP(3), g BOOLEAN, n INT) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE snk (id INT, b BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT q.id, t.b FROM (SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM cdc) WHERE rn <= 2) q JOIN t ON q.id = t.a;
