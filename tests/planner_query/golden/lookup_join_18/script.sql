CREATE TABLE o (oid INT, cid INT, total DOUBLE, c STRING, pt AS PROCTIME()) WITH ('connector'='filesystem','path'='${DIR}/o.json','format'='json');
CREATE TABLE c (id INT, name STRING, age INT, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='json');
CREATE TABLE snk (oid INT, name STRING) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, c.name FROM o JOIN c FOR SYSTEM_TIME AS OF o.pt ON c.id = 3;
