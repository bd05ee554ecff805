CREATE TABLE m2 (a INT NOT NULL, c STRING NOT NULL) WITH ('connector'='filesystem','path'='${DIR}/m2.json','format'='json');
CREATE TABLE snk (a STRING) WITH ('connector'='print');
INSERT INTO snk SELECT c FROM m2 WHERE a > 1 AND c IS NOT NULL AND c = 'x' AND a IS NOT NULL;
