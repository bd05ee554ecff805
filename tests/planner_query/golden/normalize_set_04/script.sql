-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ups (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ups.json', 'format'='op-json', 'op-json.mode'='upsert');
CREATE TABLE p2 (g STRING, c BIGINT) WITH ('connector'='print');
CREATE TABLE luii2 (id INT, c BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
EXECUTE STATEMENT SET BEGIN
INSERT INTO p2 SELECT g, COUNT(*) FROM ups GROUP BY g;
INSERT INTO luii2 SELECT id, SUM(v) FROM ups GROUP BY id;
END;
