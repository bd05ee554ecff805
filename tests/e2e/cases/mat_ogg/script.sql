-- @upsert-key: 0
CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='ogg-json');
CREATE TABLE snk (g STRING, id INT, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='labsink', 'mode'='upsert');
INSERT INTO snk SELECT COALESCE(g, 'none'), id, v FROM src WHERE v > 1 ON CONFLICT DO DEDUPLICATE;
