-- FLIP-292: in a chain of operators with one input, each obeys its own TTL, set in the plan.

CREATE TABLE a (k INT, g INT, pt AS PROCTIME());
CREATE TABLE snk (g INT, c BIGINT);
INSERT INTO snk
SELECT g, COUNT(*) FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt) AS n FROM a
) WHERE n = 1 GROUP BY g;

-- test: a key that was forgotten counts again
-- ttl deduplicate 4 s
-- ttl group-aggregate 1 h
-- given a
--   | k | g |
--   | 1 | 7 |
--   | 2 | 7 |
-- expect changelog
--      | g | c |
--   +I | 7 | 2 |
-- advance 3 s 999 ms
-- given a
--   | k | g |
--   | 1 | 7 |
-- expect changelog
-- advance 1 ms
-- given a
--   | k | g |
--   | 1 | 7 |
-- expect changelog
--      | g | c |
--   -U | 7 | 2 |
--   +U | 7 | 3 |
-- advance 59 min 59 s 999 ms
-- given a
--   | k | g |
--   | 5 | 7 |
-- expect changelog
--      | g | c |
--   -U | 7 | 3 |
--   +U | 7 | 4 |
-- advance 1 h
-- given a
--   | k | g |
--   | 6 | 7 |
-- expect changelog
--      | g | c |
--   +I | 7 | 1 |

-- test: a count that was forgotten begins at one
-- ttl deduplicate 1 h
-- ttl group-aggregate 4 s
-- given a
--   | k | g |
--   | 1 | 7 |
--   | 2 | 7 |
-- expect changelog
--      | g | c |
--   +I | 7 | 2 |
-- advance 3 s 999 ms
-- given a
--   | k | g |
--   | 3 | 7 |
-- expect changelog
--      | g | c |
--   -U | 7 | 2 |
--   +U | 7 | 3 |
-- advance 4 s
-- given a
--   | k | g |
--   | 4 | 7 |
-- expect changelog
--      | g | c |
--   +I | 7 | 1 |
-- advance 59 min 52 s
-- given a
--   | k | g |
--   | 1 | 7 |
-- expect changelog
-- advance 1 ms
-- given a
--   | k | g |
--   | 1 | 7 |
-- expect changelog
--      | g | c |
--   +I | 7 | 1 |
