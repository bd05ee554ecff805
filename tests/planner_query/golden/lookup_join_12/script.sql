CREATE TABLE o (oid INT, cid INT, total DOUBLE, c STRING, pt AS PROCTIME()) WITH ('connector'='filesystem','path'='${DIR}/o.json','format'='json');
CREATE TABLE cn (id INT, name STRING, age INT, city STRING) WITH ('connector'='filesystem','path'='${DIR}/cn.json','format'='json');
CREATE TABLE snk (oid INT, name STRING) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, c.name FROM o JOIN cn FOR SYSTEM_TIME AS OF o.pt AS c ON o.cid = c.id AND c.city = 'x';
