-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
CREATE TABLE t (id INT, g STRING, v INT) WITH ('connector'='print', 'changelog-mode'='retract');
CREATE TABLE u (g STRING, m INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert-key-delete');
EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT id, g, v FROM ups WHERE v > 1; INSERT INTO t SELECT id, g, v FROM ups WHERE v > 2; INSERT INTO u SELECT g, SUM(v) FROM ups WHERE id > 3 GROUP BY g; END;
