CREATE TABLE o (oid INT, cid INT, total DOUBLE, c STRING, pt AS PROCTIME()) WITH ('connector'='filesystem','path'='${DIR}/o.json','format'='json');
CREATE TABLE cc (id INT, name STRING, age INT, big AS age * 2) WITH ('connector'='filesystem','path'='${DIR}/cc.json','format'='json');
CREATE TABLE snk (oid INT, name STRING, big INT) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, c.name, c.big FROM o JOIN cc FOR SYSTEM_TIME AS OF o.pt AS c ON o.cid = c.id;
