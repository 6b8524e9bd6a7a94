-- name: see_bots
-- Notes that bots asked for work: who, when, and what they can do.
insert into bot as b (bot_id, last_seen_at, capabilities)
select s.bot_id, coalesce(:now::timestamptz, now()), string_to_array(s.capabilities, ',')
from unnest(:bot_ids::text[], :capabilities::text[]) s(bot_id, capabilities)
order by 1
on conflict (bot_id) do update set last_seen_at = excluded.last_seen_at, capabilities = excluded.capabilities;

-- name: add_activity
-- Adds what bots did to the current hour.
insert into bot_activity as a (bot_id, hour, pulls, pulled, done, failed, late, duration_seconds)
select s.*
from unnest(:bot_ids::text[], :hours::timestamptz[], :pulls::bigint[], :pulled::bigint[], :done::bigint[],
            :failed::bigint[], :late::bigint[], :durations::float8[]) s
order by 1, 2
on conflict (bot_id, hour) do update set
  pulls = a.pulls + excluded.pulls, pulled = a.pulled + excluded.pulled, done = a.done + excluded.done,
  failed = a.failed + excluded.failed, late = a.late + excluded.late,
  duration_seconds = least(a.duration_seconds, 86400.0 * a.done) + excluded.duration_seconds;
