-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE luj (id INT, g STRING, v INT, h STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO luj SELECT a.id, a.g, a.v, b.g FROM dbz a JOIN app b ON a.g = b.g ON CONFLICT DO DEDUPLICATE;
