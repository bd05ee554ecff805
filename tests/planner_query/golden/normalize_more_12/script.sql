CREATE TABLE upm (id INT, g STRING, v INT, f STRING METADATA FROM 'file.name' VIRTUAL, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/upm.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE pm (id INT, f STRING) WITH ('connector'='print');
INSERT INTO pm SELECT id, f FROM upm;
