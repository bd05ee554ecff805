CREATE TABLE ruc (cur STRING, rate INT, s STRING, rt AS TO_TIMESTAMP(s), WATERMARK FOR rt AS rt, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/ruc.json','format'='op-json','op-json.mode'='upsert');
CREATE TABLE snk (cur STRING, rt TIMESTAMP(3)) WITH ('connector'='print');
INSERT INTO snk SELECT cur, rt FROM ruc WHERE cur <> 'a';
