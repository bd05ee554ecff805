-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
-- @upsert-key: 0
CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE snk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO snk SELECT id, g, v FROM src WHERE v <> 5;
