SET 'table.optimizer.multi-join.enabled'='true';
CREATE TABLE a (id INT, k INT, m INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/tmp/x/a', 'format'='json');
CREATE TABLE b (k INT, t STRING, m INT) WITH ('connector'='filesystem', 'path'='/tmp/x/b', 'format'='json');
CREATE TABLE c (k INT, z STRING, m INT) WITH ('connector'='filesystem', 'path'='/tmp/x/c', 'format'='json');
CREATE TABLE d (k INT, w STRING, m INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/tmp/x/d', 'format'='debezium-json');
CREATE TABLE snk (x1 INT, x2 STRING, x3 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a.id, b.t, c.z FROM a JOIN (b JOIN c ON b.k=c.k) ON a.k=b.k;
