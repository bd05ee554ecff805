-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
CREATE TABLE t (g STRING, n BIGINT, m INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT id, g, v FROM ups; INSERT INTO t SELECT g, COUNT(*), MAX(v) FROM ups GROUP BY g; END;
