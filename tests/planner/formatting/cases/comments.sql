-- Orders.
create table orders (
  id int, -- the id
  -- How many.
  num int /* pieces */, note string -- the last column
  , arrived as proctime()
) with ('connector' = 'print' -- for now
);

insert into big -- the target
select id, -- of the order
       num
from orders -- all of them
where num > 1 and -- not too few
      num < 10
      -- and not cancelled
      and note is null
order by id; -- the end
---
-- Orders.
CREATE TABLE orders (
  id INT, -- the id
  -- How many.
  num INT, /* pieces */
  note STRING, -- the last column
  arrived AS proctime()
) WITH (
  'connector' = 'print' -- for now
);

INSERT INTO big -- the target
SELECT
  id, -- of the order
  num
FROM orders -- all of them
WHERE num > 1
  AND -- not too few
    num < 10
  -- and not cancelled
  AND note IS NULL
ORDER BY id; -- the end
