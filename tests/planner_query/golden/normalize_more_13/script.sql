-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE upm (id INT, g STRING, v INT, f STRING METADATA FROM 'file.name' VIRTUAL, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/upm.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE lum (id INT, f STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert-key-delete');
INSERT INTO lum SELECT id, f FROM upm;
