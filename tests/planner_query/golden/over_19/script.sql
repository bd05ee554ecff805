CREATE TABLE p (id INT, g STRING, v INT, w BIGINT NOT NULL, b BIGINT) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE kg (id INT, g STRING) WITH ('connector'='print');
INSERT INTO kg SELECT id, g FROM (SELECT id, g, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC) AS rn FROM p WHERE g = 'a') WHERE rn <= 3;
