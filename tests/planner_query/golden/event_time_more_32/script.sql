CREATE TABLE ep (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) PARTITIONED BY (c) WITH ('connector'='filesystem','path'='${DIR}/ep.json','format'='json');
CREATE TABLE snk (a INT, c STRING) WITH ('connector'='print');
INSERT INTO snk SELECT a, c FROM ep;
