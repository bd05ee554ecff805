CREATE TABLE src (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='json');
CREATE TABLE snk (a INT, b BIGINT, c STRING) PARTITIONED BY (b, c) WITH ('connector'='print');
INSERT INTO snk PARTITION (b=2, c='z') SELECT a FROM src;
