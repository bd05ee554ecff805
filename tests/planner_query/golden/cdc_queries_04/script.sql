-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ret (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ret.json', 'format'='op-json', 'op-json.mode'='retract');
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE luj (id INT, g STRING, v INT, h STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO luj SELECT a.id, a.g, a.v, b.g FROM dbz a JOIN ret b ON a.id = b.id;
