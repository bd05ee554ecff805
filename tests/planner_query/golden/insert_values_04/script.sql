CREATE TABLE snk (a INT, b BIGINT, c STRING) PARTITIONED BY (b) WITH ('connector'='filesystem','path'='${DIR}/out','format'='json');
INSERT INTO snk PARTITION (b=5) VALUES (1, 'x'), (2, 'yy');
