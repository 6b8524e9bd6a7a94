-- name: find_expired
-- Locks that ran out, taken by one sweeper only.
select j.job_id from job_active j
where j.place = 'locked' and j.locked_until <= coalesce(:now::timestamptz, now())
order by j.locked_until
limit :most::int
for update skip locked;
