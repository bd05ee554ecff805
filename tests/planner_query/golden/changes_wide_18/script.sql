-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE s (g STRING, n BIGINT, PRIMARY KEY (g) NOT ENFORCED) WITH ('connector'='print', 'changelog-mode'='upsert');
INSERT INTO s SELECT g, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC) AS rn FROM (SELECT g, COUNT(*) AS n FROM app GROUP BY g)) WHERE rn <= 3;
