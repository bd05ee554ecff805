CREATE TABLE t (s STRING) WITH ('connector'='filesystem','path'='${DIR}/t.json','format'='json');
CREATE TABLE out_t (t TIMESTAMP(9)) WITH ('connector'='print');
INSERT INTO out_t SELECT CAST(CAST(s AS TIMESTAMP(3)) AS TIMESTAMP(9)) FROM t;
