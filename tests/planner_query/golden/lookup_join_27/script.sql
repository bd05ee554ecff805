CREATE TABLE oe (oid INT, cid INT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem','path'='${DIR}/oe.json','format'='json');
CREATE TABLE c (id INT, name STRING, age INT, city STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/c.json','format'='json');
CREATE TABLE snk (oid INT, name STRING, ts TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, c.name, o.ts FROM oe AS o JOIN c FOR SYSTEM_TIME AS OF o.pt ON o.cid = c.id;
