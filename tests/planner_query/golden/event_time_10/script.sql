CREATE TABLE em (a INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'file.modification-time', WATERMARK FOR ts AS ts) WITH ('connector'='filesystem','path'='${DIR}/em.json','format'='json');
CREATE TABLE snk (a INT, ts TIMESTAMP_LTZ(3)) WITH ('connector'='print');
INSERT INTO snk SELECT a, ts FROM em;
