CREATE TABLE od (oid INT, cid INT, total DOUBLE, pt AS PROCTIME(), PRIMARY KEY (oid) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/od.json','format'='debezium-json');
CREATE TABLE cn (id INT, name STRING, age INT, city STRING) WITH ('connector'='filesystem','path'='${DIR}/cn.json','format'='json');
CREATE TABLE snk (oid INT, name STRING) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, c.name FROM od AS o JOIN cn FOR SYSTEM_TIME AS OF o.pt AS c ON o.cid = c.id;
