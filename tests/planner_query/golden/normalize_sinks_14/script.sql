CREATE TABLE upk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/upk.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE bh (id INT, g STRING, v INT) WITH ('connector'='blackhole');
INSERT INTO bh SELECT id, g, v FROM upk;
