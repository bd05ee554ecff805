-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
CREATE TABLE t (g STRING, n BIGINT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT x.id, x.g, y.v FROM ups x JOIN dbz y ON x.id = y.id; INSERT INTO t SELECT x.g, COUNT(*) FROM ups x JOIN dbz y ON x.id = y.id GROUP BY x.g; END;
