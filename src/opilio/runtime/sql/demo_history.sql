-- A made-up week for the demo, so that its first screen shows what a week of crawling looks like.

-- name: demo_policies
-- The demo's policies with their numbers in the shop.
select p.policy_id, p.host_id, p.job_queue as queue, p.priority, p.max_retries, (regexp_match(p.url, '/(\d+)$'))[1]::int as number
from policy p where p.labels ->> 'demo' = 'true' and p.deleted_at is null;

-- name: add_demo_changes
-- Values as they were found.
insert into changed_value (policy_id, job_id, field, old, new, at)
select * from unnest(:policy_ids::uuid[], :job_ids::uuid[], :fields::text[], :olds::jsonb[], :news::jsonb[], :ats::timestamptz[]);

-- name: add_demo_jobs
-- Finished jobs.
insert into job_archive (job_id, policy_id, host_id, queue, status, priority, base_priority, retry_count, max_retries, run_at,
  created_at, created_by, locked_by, locked_at, finished_at, finished_by, reason, last_error_code, last_error, result_id)
select r.job_id, p.policy_id, p.host_id, p.job_queue, r.status, p.priority, p.priority, case r.status when 'done' then 0 else p.max_retries end,
  p.max_retries, r.at - interval '3 seconds', r.at - interval '3 seconds', 'scheduler', 'demo-bot', r.at - r.seconds * interval '1 second',
  r.at, 'bot:demo-bot', case r.status when 'done' then 'submitted' else 'failed' end, r.code, r.error, r.result_id
from unnest(:job_ids::uuid[], :policy_ids::uuid[], :statuses::text[], :ats::timestamptz[], :seconds::float8[], :codes::text[],
  :errors::text[], :result_ids::uuid[]) r(job_id, policy_id, status, at, seconds, code, error, result_id)
join policy p on p.policy_id = r.policy_id;

-- name: add_demo_results
-- What their crawls found.
insert into result (result_id, job_id, policy_id, bot_id, price, currency, title, in_stock, crawl_duration, crawled_at)
select * from unnest(:result_ids::uuid[], :job_ids::uuid[], :policy_ids::uuid[], :bots::text[], :prices::numeric[], :currencies::text[],
  :titles::text[], :stocks::boolean[], :seconds::float8[], :ats::timestamptz[]);

-- name: set_demo_values
-- The newest values, as if the last of these crawls had just been.
update crawl_state s set last_price = n.price, last_currency = n.currency, last_title = n.title, last_in_stock = n.in_stock,
  last_success_at = n.at, last_result_id = n.result_id
from unnest(:policy_ids::uuid[], :prices::numeric[], :currencies::text[], :titles::text[], :stocks::boolean[], :ats::timestamptz[],
  :result_ids::uuid[]) n(policy_id, price, currency, title, in_stock, at, result_id)
where s.policy_id = n.policy_id;

-- name: add_demo_minutes
-- Figures for the charts, one row every ten minutes, busier by day than by night.
insert into figure_minute (minute, pending, locked, due, bots_alive, done, failed, expired, retries, durations, crawls, seconds)
select m, (12 + 8 * w)::int, (3 + 2 * w)::int, 0, 1, d, (d * 0.03 + random())::int, (random() * 0.4)::int,
  array[d, d / 12, d / 40, d / 90, 0, 0], array[d / 3, d / 3, d / 5, d / 12, d / 30, 0, 0, 0], d, d * (0.9 + 0.4 * random())
from generate_series(date_trunc('minute', :first::timestamptz), date_trunc('minute', :until::timestamptz) - interval '10 minutes', interval '10 minutes') m
cross join lateral (select 1 + sin(2 * pi() * (extract(hour from m) - 8) / 24) as w) x
cross join lateral (select (120 + 90 * w + 20 * random())::int as d) y
on conflict (minute) do update set pending = excluded.pending, locked = excluded.locked, due = excluded.due, bots_alive = excluded.bots_alive,
  done = excluded.done, failed = excluded.failed, expired = excluded.expired, retries = excluded.retries, durations = excluded.durations,
  crawls = excluded.crawls, seconds = excluded.seconds;

-- name: add_demo_hours
-- The same figures as work of the demo's bot.
insert into bot_activity (bot_id, hour, pulls, pulled, done, failed, late, duration_seconds)
select 'demo-bot', date_trunc('hour', m.minute), sum(m.done + m.failed + m.expired), sum(m.done + m.failed + m.expired), sum(m.done),
  sum(m.failed), sum(m.expired), sum(m.seconds)
from figure_minute m where m.minute < date_trunc('hour', :until::timestamptz) group by 2
on conflict (bot_id, hour) do nothing;

-- name: remove_demo_hours
-- And that work goes, too.
delete from bot_activity where bot_id = 'demo-bot' and hour < :until::timestamptz;

-- name: remove_demo_minutes
-- Figures that were made up go with the demo.
delete from figure_minute where minute < :until::timestamptz;
