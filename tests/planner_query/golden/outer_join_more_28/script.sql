CREATE TABLE pk1 (id INT, k INT, s STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/pk1', 'format'='json');
CREATE TABLE pk2 (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/pk2', 'format'='json');
CREATE TABLE two (a INT, b BIGINT) WITH ('connector'='print');
INSERT INTO two SELECT p.id, p.k FROM pk1 p LEFT JOIN pk2 q ON p.k = q.k;
