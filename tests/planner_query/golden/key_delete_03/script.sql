-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE upk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/upk.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE lukj (id INT, g STRING, v INT, h STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert-key-delete');
INSERT INTO lukj SELECT a.id, a.g, a.v, b.g FROM upk a JOIN upk b ON a.g = b.g ON CONFLICT DO DEDUPLICATE;
