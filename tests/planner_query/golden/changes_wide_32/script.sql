-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json');
CREATE TABLE ukd (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ukd.json', 'format'='op-json', 'op-json.mode'='upsert-key-delete');
CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE s (id INT, g STRING, v INT) WITH ('connector'='print', 'changelog-mode'='retract');
CREATE TABLE t (id INT, g STRING, v INT) WITH ('connector'='print', 'changelog-mode'='append');
EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT id, g, v FROM ups; INSERT INTO s SELECT id, g, v FROM ukd; INSERT INTO t SELECT id, g, v FROM app; END;
