-- name: system_status
-- What every page shows live: one statement for all viewers. Counting stops at a bound, and goes by the order of an index: the
-- planner may not know how few policies have a job, and would look for them in the whole table.
select now() as at,
  (select count(*) from (select 1 from job_active order by job_id limit :most::int) x)::int as active,
  (select greatest(c.reltuples, 0)::bigint from pg_class c where c.oid = 'crawl_state_job'::regclass) as active_estimate,
  (select count(*) from (select 1 from job_active where place = 'locked' order by locked_by limit :most::int) x)::int as locked,
  (select count(*) from (select 1 from job_active where place = 'locked' and locked_until < now() - interval '30 seconds'
     order by locked_by limit 1000) x)::int as overrun,
  (select count(*) from (select 1 from policy_due d where d.pool is null and d.due_at <= now() order by d.due_at limit :most::int) x)::int as due,
  coalesce(extract(epoch from now() - (select min(d.due_at) from policy_due d where d.pool is null and d.due_at <= now())), 0)::float8 as oldest_due,
  coalesce(extract(epoch from now() - (select x.created_at from job_active x where x.place in ('free', 'gated')
     order by x.job_id limit 1)), 0)::float8 as oldest_waiting,
  (select count(*) from bot b where b.last_seen_at > now() - interval '2 minutes')::int as bots_alive,
  (select count(*) from bot)::int as bots,
  (select count(*) from host h where h.cooling_until > now())::int as hosts_cooling,
  (select count(*) from (select 1 from outbox union all select 1 from event_waiting limit :most::int) o)::int as outbox,
  coalesce(extract(epoch from now() - least((select o.occurred_at from outbox o order by o.seq limit 1), oldest_event_waiting())), 0)::float8 as oldest_outbox,
  (select count(*) from (select 1 from webhook_delivery where head limit :most::int) x)::int
    + (select count(*) from (select 1 from webhook_delivery where state = 'pending' and not head limit :most::int) x)::int as webhooks,
  (select count(*) from (select 1 from dead_letter where replayed_at is null limit :most::int) x)::int as dead_letters,
  (select count(*) from (select 1 from project where status <> 'DONE' limit :most::int) x)::int as projects,
  (select count(*) from (select 1 from value_change v where v.field = 'price' and v.old is not null
     and v.at > now() - interval '24 hours' limit 10000) x)::int as price_changes,
  exists (select 1 from stored_result limit 1) as any_result,
  exists (select 1 from policy where deleted_at is null) as any_policy;

-- name: ended_lately
-- Jobs that finished in the last minute.
select a.status, count(*)::int as jobs from job_archive a
where a.finished_at > now() - interval '1 minute' group by 1;

-- name: queues_waiting
-- For each queue: how many jobs a bot could have now, and when a bot that can do them was last seen.
select q.queue,
  (select count(*) from (select 1 from job_active j where j.queue = q.queue and j.place = 'free' limit 10000) x)::int
  + (select count(*) from (select 1 from gate g cross join lateral (
      select 1 from job_active j
      where j.host_id = g.host_id and j.queue::"char" = g.queue::"char" and j.queue = g.queue and j.place = 'gated' limit 10000) j
      where g.queue = q.queue limit 10000) x)::int as waiting,
  (select max(b.last_seen_at) from bot b where q.queue = any(b.capabilities)) as bot_seen_at
from unnest(array['http', 'js', 'special']) q(queue);

-- name: cooling_hosts
-- Hosts that are cooling down, those with most waiting jobs first.
select h.name as host, h.cooling_until, h.cooling_reason,
  (select count(*) from (select 1 from job_active j where j.host_id = h.host_id and j.place in ('free', 'gated') limit 10000) w)::int as waiting
from host h where h.cooling_until > now() order by 4 desc, 1 limit :most::int;

-- name: webhooks_in_trouble
-- Endpoints that fail or were switched off.
select e.endpoint_id, e.url, e.status, e.status_reason, g.failures, g.failing_since
from webhook_endpoint e join webhook_gate g using (endpoint_id)
where e.status = 'disabled' or g.failing_since < now() - interval '1 minute'
order by g.failing_since nulls last limit 5;

-- name: error_codes
-- Error codes of failed and expired jobs of the last hour, most frequent first.
select coalesce(a.last_error_code, 'UNKNOWN_ERROR') as code, count(*)::int as jobs from job_archive a
where a.status <> 'done' and a.finished_at > now() - interval '1 hour'
group by 1 order by 2 desc, 1 limit 10;

-- name: counted_until
-- The end of the newest minute that is counted.
select max(minute) + interval '1 minute' from figure_minute;

-- name: figures_since
-- Sums of the figures per minute since a time, plus jobs that finished after the newest of those minutes. That moment is a parameter,
-- so that the planner knows how few jobs are newer.
with minutes as (
  select sum(done) as done, sum(failed) as failed, sum(expired) as expired, sum(crawls) as crawls, sum(seconds) as seconds, count(*) as minutes
  from figure_minute where minute >= now() - :span::interval),
jobs as (
  select count(*) filter (where a.status = 'done') as done, count(*) filter (where a.status = 'failed') as failed,
    count(*) filter (where a.status = 'expired') as expired
  from job_archive a where a.finished_at >= :counted_until::timestamptz and a.finished_at >= now() - :span::interval),
crawled as (
  select count(*) as crawls, sum(r.crawl_duration) as seconds from stored_result r
  where r.crawled_at >= :counted_until::timestamptz and r.crawled_at >= now() - :span::interval and r.crawl_duration is not null)
select (coalesce(m.done, 0) + j.done)::int as done, (coalesce(m.failed, 0) + j.failed)::int as failed,
  (coalesce(m.expired, 0) + j.expired)::int as expired, (coalesce(m.crawls, 0) + c.crawls)::int as crawls,
  (coalesce(m.seconds, 0) + coalesce(c.seconds, 0))::float8 as seconds, m.minutes::int as minutes
from minutes m cross join jobs j cross join crawled c;

-- name: oldest_minute
-- Since when there are figures.
select min(minute) from figure_minute;

-- name: histogram_since
-- Ended jobs by retries and crawls by seconds, since a moment.
select 'retries' as kind, u.place::int, sum(u.n)::int as n
from figure_minute f cross join unnest(f.retries) with ordinality u(n, place) where f.minute >= now() - :span::interval group by 2
union all
select 'durations', u.place::int, sum(u.n)::int
from figure_minute f cross join unnest(f.durations) with ordinality u(n, place) where f.minute >= now() - :span::interval group by 2
order by 1, 2;

-- name: series
-- The minutes since a moment, put together in steps; the minutes that are not counted yet are counted here.
with f as (
  select minute, pending, locked, due, bots_alive, done, failed, expired, crawls, seconds from figure_minute where minute >= now() - :span::interval
  union all
  select date_trunc('minute', a.finished_at), null, null, null, null, count(*) filter (where a.status = 'done'),
    count(*) filter (where a.status = 'failed'), count(*) filter (where a.status = 'expired'), 0, 0
  from job_archive a where a.finished_at >= :counted_until::timestamptz and a.finished_at >= now() - :span::interval group by 1)
select date_bin(:step::interval, f.minute, 'epoch'::timestamptz) as at,
  avg(f.pending)::int as pending, avg(f.locked)::int as locked, max(f.due)::int as due, max(f.bots_alive)::int as bots_alive,
  sum(f.done)::int as done, sum(f.failed)::int as failed, sum(f.expired)::int as expired,
  (sum(f.seconds) / nullif(sum(f.crawls), 0))::float8 as mean_seconds
from f group by 1 order by 1;

-- name: newest_minute
-- The newest minute with figures, and the newest minute that is complete.
select (select max(minute) from figure_minute) as newest, date_trunc('minute', now() - interval '5 seconds') as now;

-- name: roll_up
-- Counts the jobs that finished in each minute of a span. Counting a minute again corrects it. Queue figures are known
-- only for the newest minute, and are kept for the others as they were.
with minutes as (
  select m as minute from generate_series(:first::timestamptz, :until::timestamptz - interval '1 minute', interval '1 minute') m),
ended as (
  select date_trunc('minute', a.finished_at) as minute,
    count(*) filter (where a.status = 'done')::int as done, count(*) filter (where a.status = 'failed')::int as failed,
    count(*) filter (where a.status = 'expired')::int as expired,
    array[count(*) filter (where a.retry_count = 0), count(*) filter (where a.retry_count = 1),
          count(*) filter (where a.retry_count = 2), count(*) filter (where a.retry_count = 3),
          count(*) filter (where a.retry_count = 4), count(*) filter (where a.retry_count > 4)]::int[] as retries
  from job_archive a where a.finished_at >= :first::timestamptz and a.finished_at < :until::timestamptz group by 1),
crawled as (
  select date_trunc('minute', r.crawled_at) as minute, count(*)::int as crawls, sum(least(r.crawl_duration, 86400)) as seconds,
    array[count(*) filter (where b = 0), count(*) filter (where b = 1), count(*) filter (where b = 2),
          count(*) filter (where b = 3), count(*) filter (where b = 4), count(*) filter (where b = 5),
          count(*) filter (where b = 6), count(*) filter (where b = 7)]::int[] as durations
  from stored_result r cross join lateral width_bucket(r.crawl_duration, array[0.5, 1, 2, 5, 10, 30, 60]::float8[]) b
  where r.crawled_at >= :first::timestamptz and r.crawled_at < :until::timestamptz and r.crawl_duration is not null group by 1)
insert into figure_minute as f (minute, pending, locked, due, bots_alive, done, failed, expired, retries, durations, crawls, seconds)
select m.minute, seen.pending, seen.locked, seen.due, seen.bots_alive,
  coalesce(e.done, 0), coalesce(e.failed, 0), coalesce(e.expired, 0), coalesce(e.retries, array_fill(0, array[6])),
  coalesce(c.durations, array_fill(0, array[8])), coalesce(c.crawls, 0), coalesce(c.seconds, 0)
from minutes m left join ended e using (minute) left join crawled c using (minute)
left join (select :until::timestamptz - interval '1 minute' as minute, :pending::int as pending, :locked::int as locked,
             :due::int as due, :bots_alive::int as bots_alive) seen using (minute)
on conflict (minute) do update set pending = coalesce(f.pending, excluded.pending), locked = coalesce(f.locked, excluded.locked),
  due = coalesce(f.due, excluded.due), bots_alive = coalesce(f.bots_alive, excluded.bots_alive), done = excluded.done, failed = excluded.failed, expired = excluded.expired,
  retries = excluded.retries, durations = excluded.durations, crawls = excluded.crawls, seconds = excluded.seconds;

-- name: forget_minutes
-- Minutes that no chart shows any more.
delete from figure_minute where minute < now() - :keep::interval;

-- name: watched_jobs
-- Versions of the jobs that open pages show.
select j.job_id as id, j.status || ':' || j.retry_count || ':' || coalesce(j.locked_until::text, '') as mark
from job j where j.job_id = any(:ids::uuid[]);

-- name: watched_policies
-- The same for policies.
select s.policy_id as id, s.enabled || ':' || s.next_run_at || ':' || s.failure_count || ':' || coalesce(j.place, '') as mark
from policy_state s left join job_active j on j.policy_id = s.policy_id where s.policy_id = any(:ids::uuid[]);

-- name: watched_projects
-- The same for projects: their state, tasks that went out, and an analysis that stands still.
select p.project_id as id,
       p.snapshot_version || ':' || coalesce(p.finished_at::text, '') || ':' || coalesce(s.stalled_at::text, '') as mark
from project p left join project_state s using (project_id) where p.project_id = any(:ids::text[]);

-- name: saved_views
-- Saved views, of one page or of all.
select view_id, page, name, query, created_by, created_at from saved_view
where :page::text is null or page = :page::text order by page, name limit 200;

-- name: save_view
-- A view under a name; the same name again replaces it.
insert into saved_view (page, name, query, created_by) values (:page::text, :name::text, :query::text, :by::text)
on conflict (page, name) do update set query = excluded.query, created_by = excluded.created_by, created_at = now()
returning view_id;

-- name: delete_view
-- Deletes a saved view.
delete from saved_view where view_id = :view_id::uuid;

-- name: events_to_resend
-- How many webhooks of an endpoint would be sent again: logged events that it subscribes to, or its direct deliveries.
select (select count(*) from (
    select 1 from event_log v join webhook_endpoint e on e.endpoint_id = :endpoint_id::uuid
    where e.kind = 'subscription' and v.type ~ e.event_regex and v.seq <@ (select relayed from relay_position)
      and v.logged_at >= :since::timestamptz and v.occurred_at >= :since::timestamptz limit :most::int) x)::int
  + (select count(*) from (
    select distinct d.webhook_id from webhook_delivery d
    where d.endpoint_id = :endpoint_id::uuid and d.cause = 'direct' and d.state <> 'pending'
      and d.created_at >= :since::timestamptz limit :most::int) x)::int;
