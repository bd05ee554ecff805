-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
CREATE TABLE t (id INT, g STRING, v INT) WITH ('connector'='print');
CREATE TABLE u (id INT, g STRING, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT id, g, v FROM dbz; INSERT INTO t SELECT id, g, v FROM dbz WHERE v > 3; INSERT INTO u SELECT id, g, v FROM dbz ON CONFLICT DO DEDUPLICATE; END;
