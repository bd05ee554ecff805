CREATE TABLE src (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='json');
CREATE TABLE snk (a INT, b BIGINT, c STRING) PARTITIONED BY (b) WITH ('connector'='filesystem','path'='${DIR}/out','format'='json');
INSERT INTO snk PARTITION (b=2) SELECT a, 'k' FROM src WHERE a > 1;
