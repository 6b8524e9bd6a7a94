-- name: find_expired
-- Locks whose TTL passed, taken by one sweeper only: bot by bot, those that expired first.
with recursive bots as (  -- each bot that holds a lock, by a step in the index
  (select j.locked_by as bot_id from crawl_state j where j.place = 'locked' order by j.locked_by limit 1)
  union all
  select (select j.locked_by from crawl_state j where j.place = 'locked' and j.locked_by > b.bot_id order by j.locked_by limit 1)
  from bots b where b.bot_id is not null)
select j.job_id from bots b
cross join lateral (
  select x.job_id from crawl_state x
  where x.place = 'locked' and x.locked_by = b.bot_id and x.locked_until <= coalesce(:now::timestamptz, now())
  order by x.locked_until
  limit :most::int
  for update skip locked) j
limit :most::int;

-- name: postpone_expiry
-- A lock that could not be expired: it is tried again later, and stays locked until then.
update crawl_state set locked_until = coalesce(:now::timestamptz, now()) + make_interval(secs => :seconds::float8)
where job_id = :job_id::uuid and place = 'locked';
