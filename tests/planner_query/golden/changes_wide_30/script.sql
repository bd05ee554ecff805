-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert-key-delete');
CREATE TABLE t (id INT, g STRING, v INT) WITH ('connector'='print', 'changelog-mode'='retract');
CREATE TABLE u (v INT, n BIGINT) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT id, g, v FROM ups; INSERT INTO t SELECT id, g, v FROM ups WHERE v > 3; INSERT INTO u SELECT v, COUNT(*) FROM ups GROUP BY v; END;
