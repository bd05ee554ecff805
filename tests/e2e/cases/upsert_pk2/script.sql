-- both rows of an update are written
CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='op-json');
CREATE TABLE snk (id INT, g STRING, v INT, PRIMARY KEY (id, g) NOT ENFORCED) WITH ('connector'='labsink', 'mode'='upsert');
INSERT INTO snk SELECT id, COALESCE(g, 'none'), v FROM src;
