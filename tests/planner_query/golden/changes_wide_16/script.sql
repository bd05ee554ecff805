-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE prc (id INT, g STRING, v INT, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='${DIR}/prc.json', 'format'='json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY pt) AS rn FROM prc) WHERE rn = 1;
