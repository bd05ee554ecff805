SET 'table.exec.state.ttl' = '2 h';
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE bhg (id INT, g STRING, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='blackhole');
INSERT INTO bhg SELECT id, g, v FROM dbz ON CONFLICT DO DEDUPLICATE;
