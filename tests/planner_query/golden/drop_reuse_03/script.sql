-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE p1 (g STRING) WITH ('connector'='print');
CREATE TABLE pi (id INT) WITH ('connector'='print');
CREATE TABLE luiv (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
EXECUTE STATEMENT SET BEGIN
INSERT INTO luiv SELECT id, v FROM ups;
INSERT INTO p1 SELECT g FROM ups;
INSERT INTO pi SELECT v FROM ups;
END;
