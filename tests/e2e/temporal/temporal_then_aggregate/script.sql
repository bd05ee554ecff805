CREATE TABLE o (oid INT, cur STRING, amt INT, ot TIMESTAMP(3), WATERMARK FOR ot AS ot - INTERVAL '2' SECOND) WITH ('connector'='filesystem','path'='${DIR}/o.json','format'='json','json.timestamp-format.standard'='ISO-8601');
CREATE TABLE r (cur STRING, rate INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt - INTERVAL '2' SECOND, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/r.json','format'='debezium-json','debezium-json.timestamp-format.standard'='ISO-8601');
CREATE TABLE snk (cur STRING, n BIGINT, v INT) WITH ('connector'='print');
INSERT INTO snk SELECT o.cur, COUNT(*), SUM(r.rate) FROM o JOIN r FOR SYSTEM_TIME AS OF o.ot ON o.cur = r.cur GROUP BY o.cur;
