CREATE TABLE src (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='json');
CREATE TABLE snk (a INT, b BIGINT, c STRING) PARTITIONED BY (b, c) WITH ('connector'='print');
INSERT INTO snk PARTITION (c='z', b=2) SELECT a FROM src;
