CREATE TABLE upk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/upk.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE pr (id INT, g STRING, v INT) WITH ('connector'='print');
INSERT INTO pr SELECT id, g, v FROM upk WHERE id > 3;
