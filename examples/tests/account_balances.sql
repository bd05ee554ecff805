-- Balances follow bookings, which may be corrected and withdrawn.

CREATE TABLE bookings (id INT, account STRING, amount DECIMAL(10, 2)) WITH ('changelog-mode' = 'retract');
CREATE TABLE balances (account STRING, bookings BIGINT, balance DECIMAL(38, 2));

INSERT INTO balances
SELECT account, COUNT(*), SUM(CASE WHEN amount IS NULL THEN 0 ELSE amount END)
FROM bookings
GROUP BY account;

-- test: a correction retracts the old balance
-- given bookings
--      | id | account | amount |
--   +I | 1  | Ann     | 10.00  |
--   +I | 2  | Ann     | -2.50  |
--   +I | 3  | Bob     | NULL   |
-- expect changelog
--      | account | bookings | balance |
--   +I | Ann     | 2        | 7.50    |
--   +I | Bob     | 1        | 0.00    |
-- given bookings
--      | id | account | amount |
--   -U | 2  | Ann     | -2.50  |
--   +U | 2  | Ann     | -4.00  |
-- expect changelog
--      | account | bookings | balance |
--   -U | Ann     | 2        | 7.50    |
--   +U | Ann     | 2        | 6.00    |
-- given bookings
--      | id | account | amount |
--   -D | 3  | Bob     | NULL   |
-- expect changelog
--      | account | bookings | balance |
--   -D | Bob     | 1        | 0.00    |
-- expect table
--   | account | bookings | balance |
--   | Ann     | 2        | 6.00    |

-- test: balances are kept for ever
-- given bookings
--   | id | account | amount |
--   | 1  | Ann     | 10.00  |
-- advance 3650 d
-- given bookings
--   | id | account | amount |
--   | 2  | Ann     | 1.00   |
-- expect table
--   | account | bookings | balance |
--   | Ann     | 2        | 11.00   |
