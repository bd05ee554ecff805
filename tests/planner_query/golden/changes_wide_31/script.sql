-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
SET 'table.exec.source.cdc-events-duplicate' = 'true';
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
CREATE TABLE t (v INT, n BIGINT, PRIMARY KEY (v) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT id, g, v FROM dbz; INSERT INTO t SELECT v, COUNT(*) FROM dbz GROUP BY v; END;
