CREATE TABLE rc (cur STRING, rate INT, s STRING, rt AS TO_TIMESTAMP(s), WATERMARK FOR rt AS rt, PRIMARY KEY (cur) NOT ENFORCED) WITH ('connector'='filesystem','path'='${DIR}/rc.json','format'='json');
CREATE TABLE snk (cur STRING, rate INT) WITH ('connector'='print');
INSERT INTO snk SELECT cur, rate FROM rc WHERE rate > 3;
