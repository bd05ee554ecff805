CREATE TABLE n (id INT, xs ARRAY<INT>, rs ARRAY<ROW<k INT, v STRING>>, m MAP<STRING, INT>, ss ARRAY<STRING>, arr2 ARRAY<ARRAY<INT>>) WITH ('connector'='filesystem', 'path'='${DIR}/n.json', 'format'='json');
CREATE TABLE snk (x0 STRING, x1 INT) WITH ('connector'='print');
INSERT INTO snk SELECT s, x FROM n CROSS JOIN UNNEST(ss) AS T(s) CROSS JOIN UNNEST(xs) AS W(x);
