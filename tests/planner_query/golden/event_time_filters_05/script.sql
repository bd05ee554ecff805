CREATE TABLE ru (cur STRING, rate INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt - INTERVAL '2' SECOND, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/ru.json','format'='op-json','op-json.mode'='upsert');
CREATE TABLE snk (cur STRING) WITH ('connector'='print');
INSERT INTO snk SELECT cur FROM ru WHERE rate > 3;
