CREATE TABLE upc (id INT, g STRING, v INT, w AS v * 2, pt AS PROCTIME(), PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/upc.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE pc (id INT, w INT, pt TIMESTAMP_LTZ(3)) WITH ('connector'='print');
INSERT INTO pc SELECT id, w, pt FROM upc;
