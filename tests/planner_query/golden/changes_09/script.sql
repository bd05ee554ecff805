-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE npk (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/npk.json', 'format'='debezium-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM npk WHERE v > 3 ON CONFLICT DO DEDUPLICATE;
