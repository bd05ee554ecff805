CREATE TABLE upk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/upk.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE prk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print');
INSERT INTO prk SELECT id, g, v FROM upk;
