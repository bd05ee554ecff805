CREATE TABLE src (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='json');
CREATE TABLE snk (a INT, b BIGINT, c VARCHAR(1)) PARTITIONED BY (c) WITH ('connector'='filesystem','path'='${DIR}/out','format'='json');
INSERT INTO snk PARTITION (c='qqq') SELECT a, b FROM src;
