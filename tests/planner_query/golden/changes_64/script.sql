-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE up2 (a INT, b INT, c STRING, d INT, PRIMARY KEY (a, b) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/up2.json', 'format'='op-json');
CREATE TABLE s (a INT, b INT, c STRING, d INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT a, b, c, d FROM up2 ON CONFLICT DO DEDUPLICATE;
