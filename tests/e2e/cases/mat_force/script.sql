-- @upsert-key: 0
SET 'table.exec.sink.upsert-materialize' = 'FORCE';
CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='op-json');
CREATE TABLE snk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='labsink', 'mode'='upsert');
INSERT INTO snk SELECT id, g, v FROM src WHERE v > 2;
