CREATE TABLE src (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='json');
CREATE TABLE snk (a INT, b TIMESTAMP(3), c STRING) PARTITIONED BY (b) WITH ('connector'='filesystem','path'='${DIR}/out','format'='json');
INSERT INTO snk PARTITION (b='2024-01-01 00:00:00') SELECT a, c FROM src;
