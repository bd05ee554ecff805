CREATE TABLE o (oid INT, cur STRING, amt INT, ot TIMESTAMP(3), WATERMARK FOR ot AS ot - INTERVAL '2' SECOND) WITH ('connector'='filesystem','path'='${DIR}/o.json','format'='json');
CREATE TABLE r2 (cur STRING, reg INT, rate INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt, PRIMARY KEY (cur, reg) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/r2.json','format'='json');
CREATE TABLE snk (oid INT, amt INT, rate INT) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, o.amt, r.rate FROM o JOIN r2 FOR SYSTEM_TIME AS OF o.ot AS r ON o.cur = r.cur AND o.amt = r.reg;
