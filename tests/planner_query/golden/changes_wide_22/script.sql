-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
SET 'table.exec.sink.upsert-materialize' = 'FORCE';
CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM app ON CONFLICT DO DEDUPLICATE;
