-- name: extend_locks
-- Heartbeats: the lock is the bot's own, alive, and not beyond its longest life.
with beat as materialized (
  select b.job_id, b.bot_id, b.token from unnest(:job_ids::uuid[], :bots::text[], :tokens::uuid[]) b(job_id, bot_id, token)),
clock as (select coalesce(:now::timestamptz, now()) as at),
held as materialized (
  select j.job_id from crawl_state j join beat b on b.job_id = j.job_id
  where j.place = 'locked' and j.locked_by = b.bot_id and j.lock_token = b.token and j.locked_until > (select at from clock)
  order by j.job_id for update of j)
update crawl_state j set locked_until = greatest(j.locked_until, least(
    clock.at + make_interval(secs => j.lock_ttl_seconds),
    j.locked_at + make_interval(secs => j.lock_ttl_seconds * :longest::int)))
from held cross join clock where j.job_id = held.job_id
returning j.job_id, j.locked_by, j.lock_token, j.locked_until;
