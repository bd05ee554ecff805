SET 'table.optimizer.multi-join.enabled'='true';
CREATE TABLE a (id INT, k INT, m INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/tmp/x/a', 'format'='json');
CREATE TABLE b (k INT, t STRING, m INT) WITH ('connector'='filesystem', 'path'='/tmp/x/b', 'format'='json');
CREATE TABLE c (k INT, z STRING, m INT) WITH ('connector'='filesystem', 'path'='/tmp/x/c', 'format'='json');
CREATE TABLE d (k INT, w STRING, m INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/tmp/x/d', 'format'='debezium-json');
CREATE TABLE e (k BIGINT, v STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/tmp/x/e', 'format'='debezium-json');
CREATE TABLE snk (x1 INT, x2 STRING, x3 STRING, PRIMARY KEY (x1) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO snk SELECT d.k, d.w, d3.w FROM d JOIN d AS d2 ON d.k=d2.k LEFT JOIN d AS d3 ON d.k=d3.k;
