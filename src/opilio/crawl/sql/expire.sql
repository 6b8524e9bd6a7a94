-- name: find_expired
-- Locks whose TTL passed, taken by one sweeper only.
select j.job_id from crawl_state j
where j.place = 'locked' and j.locked_until <= coalesce(:now::timestamptz, now())
order by j.locked_until
limit :most::int
for update skip locked;

-- name: postpone_expiry
-- A lock that could not be expired: it is tried again later, and stays locked until then.
update crawl_state set locked_until = coalesce(:now::timestamptz, now()) + make_interval(secs => :seconds::float8)
where job_id = :job_id::uuid and place = 'locked';
