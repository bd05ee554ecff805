CREATE TABLE pk (a INT, b BIGINT, c STRING, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/pk.json','format'='json');
CREATE TABLE snk (a INT, b BIGINT, c STRING) WITH ('connector'='print');
INSERT INTO snk SELECT * FROM pk WHERE a = 3;
