CREATE TABLE od (oid INT, cur STRING, amt INT, ot TIMESTAMP(3), WATERMARK FOR ot AS ot, PRIMARY KEY (oid) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/od.json','format'='debezium-json');
CREATE TABLE snk (oid INT, ot TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT oid, ot FROM od WHERE amt > 1;
