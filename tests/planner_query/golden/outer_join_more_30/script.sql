CREATE TABLE pk1 (id INT, k INT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/pk1', 'format'='json');
CREATE TABLE pk2 (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/pk2', 'format'='json');
CREATE TABLE uno (a INT) WITH ('connector'='print');
INSERT INTO uno SELECT q.k FROM pk1 p RIGHT JOIN pk2 q ON p.id = q.k;
