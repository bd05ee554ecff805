-- @upsert-key: 0
CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE snk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='labsink', 'mode'='upsert');
INSERT INTO snk SELECT id, g, v FROM src WHERE v <> 5;
