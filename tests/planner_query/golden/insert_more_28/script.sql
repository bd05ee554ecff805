CREATE TABLE src (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='json');
CREATE TABLE snk (a INT, b BIGINT, c STRING) PARTITIONED BY (b) WITH ('connector'='filesystem','path'='${DIR}/out','format'='json');
EXECUTE STATEMENT SET BEGIN INSERT INTO snk PARTITION (b=2) SELECT a, c FROM src; INSERT INTO snk PARTITION (b=3) SELECT a, c FROM src; INSERT OVERWRITE snk SELECT * FROM src; END;
