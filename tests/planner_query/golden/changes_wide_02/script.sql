-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE ogg (id INT NOT NULL, g STRING NOT NULL, v INT, PRIMARY KEY (id, g) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/ogg.json', 'format'='ogg-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM ogg ON CONFLICT DO DEDUPLICATE;
