-- Flink compiled this with a sink that declares the changelog mode in code: its own print has no such option.
CREATE TABLE app (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/app.json', 'format'='json');
CREATE TABLE s (id INT, g STRING, v INT) WITH ('connector'='print', 'changelog-mode'='append');
INSERT INTO s SELECT id, g, v FROM app LIMIT 5;
