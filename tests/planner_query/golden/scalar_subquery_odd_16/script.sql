CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE snk (k BIGINT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT e.id, (SELECT MAX(f.id) FROM events f WHERE f.user_id = e.user_id AND f.amount < e.amount) FROM events e;
