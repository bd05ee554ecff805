SET 'table.optimizer.non-deterministic-update.strategy'='TRY_RESOLVE';
CREATE TABLE od (oid INT, cid INT, total DOUBLE, pt AS PROCTIME(), PRIMARY KEY (oid) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/od.json','format'='debezium-json');
CREATE TABLE c (id INT, name STRING, age INT, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='json');
CREATE TABLE snk (oid INT, name STRING) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, c.name FROM od AS o JOIN c FOR SYSTEM_TIME AS OF o.pt ON o.cid = c.id;
