CREATE TABLE events (id BIGINT, user_id BIGINT, kind STRING, amount INT) WITH ('connector'='filesystem', 'path'='/data/events', 'format'='json');
CREATE TABLE snk (k BIGINT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT e.id, (SELECT COUNT(kind) FROM events f WHERE f.user_id = e.user_id) FROM events e;
