-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE pup (id INT, g STRING, v INT, pt AS PROCTIME(), PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/pup.json', 'format'='op-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT id, g, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY pt DESC) AS rn FROM pup) WHERE rn = 1;
