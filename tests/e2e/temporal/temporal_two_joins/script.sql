CREATE TABLE o (oid INT, cur STRING, amt INT, ot TIMESTAMP(3), WATERMARK FOR ot AS ot - INTERVAL '2' SECOND) WITH ('connector'='filesystem','path'='${DIR}/o.json','format'='json','json.timestamp-format.standard'='ISO-8601');
CREATE TABLE r (cur STRING, rate INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt - INTERVAL '2' SECOND, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/r.json','format'='debezium-json','debezium-json.timestamp-format.standard'='ISO-8601');
CREATE TABLE rh (cur STRING, rate INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt - INTERVAL '2' SECOND) WITH ('connector'='filesystem','path'='${DIR}/rh.json','format'='json','json.timestamp-format.standard'='ISO-8601');
CREATE VIEW v AS SELECT cur, rate, rt FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY cur ORDER BY rt DESC) AS rn FROM rh) WHERE rn = 1;
CREATE TABLE snk (oid INT, a INT, b INT) WITH ('connector'='print');
INSERT INTO snk SELECT o.oid, r.rate, w.rate FROM o JOIN r FOR SYSTEM_TIME AS OF o.ot ON o.cur = r.cur LEFT JOIN v FOR SYSTEM_TIME AS OF o.ot AS w ON o.cur = w.cur;
