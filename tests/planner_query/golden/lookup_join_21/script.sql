CREATE TABLE o (oid INT, cid INT, total DOUBLE, c STRING, pt AS PROCTIME()) WITH ('connector'='filesystem','path'='${DIR}/o.json','format'='json');
CREATE TABLE c (id INT, name STRING, age INT, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='json');
CREATE TABLE c2 (id INT, region STRING, name STRING, age INT, PRIMARY KEY (id, region) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c2.json','format'='json');
CREATE TABLE snk (oid INT, a STRING, b STRING) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, c.name, d.name FROM o JOIN c FOR SYSTEM_TIME AS OF o.pt ON o.cid = c.id LEFT JOIN c2 FOR SYSTEM_TIME AS OF o.pt AS d ON o.cid = d.id AND c.city = d.region;
