CREATE TABLE o (oid INT, cur STRING, amt INT, ot TIMESTAMP(3), WATERMARK FOR ot AS ot - INTERVAL '2' SECOND) WITH ('connector'='filesystem','path'='${DIR}/o.json','format'='json');
CREATE TABLE rc (cur STRING, rate INT, s STRING, rt AS TO_TIMESTAMP(s), WATERMARK FOR rt AS rt, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/rc.json','format'='json');
CREATE TABLE snk (oid INT, amt INT, rate INT) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, o.amt, r.rate FROM o JOIN rc FOR SYSTEM_TIME AS OF o.ot AS r ON o.cur = r.cur AND r.rate > 3;
