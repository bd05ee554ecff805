-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE upk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/upk.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE luk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert-key-delete');
CREATE TABLE bhk (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='blackhole');
EXECUTE STATEMENT SET BEGIN
INSERT INTO luk SELECT id, g, v FROM upk;
INSERT INTO bhk SELECT id, g, v FROM upk;
END;
