CREATE TABLE ol (oid INT, cur STRING, amt INT, ot TIMESTAMP_LTZ(3), WATERMARK FOR ot AS ot) WITH ('connector'='filesystem','path'='${DIR}/ol.json','format'='json');
CREATE TABLE rl (cur STRING, rate INT, rt TIMESTAMP_LTZ(3), WATERMARK FOR rt AS rt, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/rl.json','format'='json');
CREATE TABLE snk (oid INT, amt INT, rate INT) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, o.amt, r.rate FROM ol AS o LEFT JOIN rl FOR SYSTEM_TIME AS OF o.ot AS r ON o.cur = r.cur;
