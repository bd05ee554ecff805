-- FLIP-292: in a chain of operators with one input, each obeys its own TTL, given by a hint.

CREATE TABLE b (k INT, g INT);
CREATE TABLE snk (c BIGINT, n BIGINT);

-- test: counts that were forgotten are not retracted
INSERT INTO snk
SELECT /*+ STATE_TTL('s' = '1 h') */ c, COUNT(*)
FROM (SELECT /*+ STATE_TTL('b' = '4 s') */ k, COUNT(*) AS c FROM b GROUP BY k) AS s
GROUP BY c;

-- given b
--   | k | g |
--   | 1 | 7 |
--   | 2 | 7 |
-- expect changelog
--      | c | n |
--   +I | 1 | 2 |
-- advance 3 s 999 ms
-- given b
--   | k | g |
--   | 1 | 7 |
-- expect changelog
--      | c | n |
--   -U | 1 | 2 |
--   +U | 1 | 1 |
--   +I | 2 | 1 |
-- advance 1 ms
-- given b
--   | k | g |
--   | 2 | 7 |
-- expect changelog
--      | c | n |
--   -U | 1 | 1 |
--   +U | 1 | 2 |
-- advance 59 min 59 s 999 ms
-- given b
--   | k | g |
--   | 7 | 7 |
-- expect changelog
--      | c | n |
--   -U | 1 | 2 |
--   +U | 1 | 3 |
-- advance 1 h
-- given b
--   | k | g |
--   | 8 | 7 |
-- expect changelog
--      | c | n |
--   +I | 1 | 1 |

-- test: counts of counts that were forgotten begin at one
INSERT INTO snk
SELECT /*+ STATE_TTL('s' = '4 s') */ c, COUNT(*)
FROM (SELECT /*+ STATE_TTL('b' = '1 h') */ k, COUNT(*) AS c FROM b GROUP BY k) AS s
GROUP BY c;

-- given b
--   | k | g |
--   | 1 | 7 |
--   | 2 | 7 |
-- expect changelog
--      | c | n |
--   +I | 1 | 2 |
-- advance 3 s 999 ms
-- given b
--   | k | g |
--   | 3 | 7 |
-- expect changelog
--      | c | n |
--   -U | 1 | 2 |
--   +U | 1 | 3 |
-- advance 4 s
-- given b
--   | k | g |
--   | 4 | 7 |
-- expect changelog
--      | c | n |
--   +I | 1 | 1 |
-- advance 59 min 52 s
-- given b
--   | k | g |
--   | 1 | 7 |
-- expect changelog
--      | c | n |
--   +I | 2 | 1 |
-- advance 1 ms
-- given b
--   | k | g |
--   | 2 | 7 |
-- expect changelog
--      | c | n |
--   +I | 1 | 1 |
