CREATE TABLE o (oid INT, cur STRING, amt INT, ot TIMESTAMP(3), WATERMARK FOR ot AS ot - INTERVAL '2' SECOND) WITH ('connector'='filesystem','path'='${DIR}/o.json','format'='json');
CREATE TABLE r (cur STRING, rate INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt - INTERVAL '2' SECOND, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/r.json','format'='json');
CREATE TABLE r2 (cur STRING, reg INT, rate INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt, PRIMARY KEY (cur, reg) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/r2.json','format'='json');
CREATE TABLE snk (oid INT, x INT, y INT) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, r.rate, s.rate FROM o JOIN r FOR SYSTEM_TIME AS OF o.ot ON o.cur = r.cur LEFT JOIN r2 FOR SYSTEM_TIME AS OF o.ot AS s ON o.cur = s.cur AND o.amt = s.reg;
