CREATE TABLE o (oid INT, cid INT, total DOUBLE, c STRING, pt AS PROCTIME()) WITH ('connector'='filesystem','path'='${DIR}/o.json','format'='json');
CREATE TABLE c2 (id INT, region STRING, name STRING, age INT, PRIMARY KEY (id, region) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c2.json','format'='json');
CREATE TABLE snk (oid INT, name STRING) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, c.name FROM o LEFT JOIN c2 FOR SYSTEM_TIME AS OF o.pt AS c ON o.cid = c.id AND o.c = c.region;
