CREATE TABLE w (s STRING, p STRING, e STRING, i INT) WITH ('connector'='filesystem','path'='${DIR}/w.json','format'='json');
CREATE TABLE out_t (a STRING, b STRING) WITH ('connector'='print');
INSERT INTO out_t SELECT JSON_ARRAYAGG(JSON_OBJECT('k' VALUE 1)), JSON_OBJECTAGG(KEY COALESCE(s, 'n') VALUE JSON_ARRAY(1)) FROM w;
