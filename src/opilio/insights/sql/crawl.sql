-- name: policies
-- Policies, newest first.
select p.policy_id as id, p.url, h.name as host, s.enabled, p.frequency_hours, p.priority, p.max_retries,
       p.retry_backoff_minutes, p.timeout_minutes, p.job_queue as queue, p.crawl_config, p.rule_set, p.hot, p.labels,
       p.schedule, p.min_interval_hours, p.max_interval_hours, s.next_run_at, s.last_success_at, s.last_failed_at, s.failure_count, s.error_rate, p.created_at, p.updated_at
from policy p join host h on h.host_id = p.host_id join policy_state s on s.policy_id = p.policy_id
where p.deleted_at is null
  and (:before::uuid is null or p.policy_id < :before::uuid)
  and (:enabled::boolean is null or s.enabled = :enabled::boolean)
  and (:host::text is null or p.host_id = (select x.host_id from host x where x.name = :host::text))
  and (:q::text is null or position(lower(:q::text) in lower(p.url)) > 0)
  and (:label_key::text is null or p.labels ->> :label_key::text = :label_value::text)
order by p.policy_id desc limit :most::int;

-- name: policy
-- One policy.
select p.policy_id as id, p.url, h.name as host, s.enabled, p.frequency_hours, p.priority, p.max_retries,
       p.retry_backoff_minutes, p.timeout_minutes, p.job_queue as queue, p.crawl_config, p.rule_set, p.hot, p.labels,
       p.schedule, p.min_interval_hours, p.max_interval_hours, s.next_run_at, s.last_success_at, s.last_failed_at, s.failure_count, s.error_rate, p.created_at, p.updated_at
from policy p join host h on h.host_id = p.host_id join policy_state s on s.policy_id = p.policy_id
where p.policy_id = :policy_id::uuid and p.deleted_at is null;

-- name: policies_to_export
-- Policies as an import reads them, oldest first: the queue as the user set it, not as the rule engine chose.
select p.policy_id, p.url, s.enabled, p.frequency_hours, p.priority, p.max_retries, p.retry_backoff_minutes,
       p.timeout_minutes, p.queue, p.crawl_config, p.rule_set, p.hot, p.labels, s.next_run_at,
       p.schedule, p.min_interval_hours, p.max_interval_hours
from policy p join policy_state s on s.policy_id = p.policy_id
where p.deleted_at is null and (:after::uuid is null or p.policy_id > :after::uuid)
order by p.policy_id limit :most::int;

-- name: active_jobs
-- Waiting and running jobs, newest first.
select j.job_id as id, j.policy_id, p.url, h.name as host, j.queue,
       case j.place when 'locked' then 'locked' else 'pending' end as status, j.priority, j.retry_count, j.max_retries,
       nullif(j.run_at, 'infinity') as run_at, j.created_at, j.locked_by, j.locked_at, j.locked_until, j.lock_ttl_seconds,
       j.last_error, j.last_error_code, null::timestamptz as finished_at, null::uuid as result_id
from job_active j join policy p on p.policy_id = j.policy_id join host h on h.host_id = j.host_id
where (:before::uuid is null or j.job_id < :before::uuid)
  and (:status::text is null or (j.place = 'locked') = (:status::text = 'locked'))
  and (:host::text is null or j.host_id = (select x.host_id from host x where x.name = :host::text))
  and (:policy_id::uuid is null or j.policy_id = :policy_id::uuid)
  and (:bot_id::text is null or (j.place = 'locked' and j.locked_by = :bot_id::text))
  and (:policy_ids::uuid[] is null or j.policy_id = any(:policy_ids::uuid[]))
  and (:error::text is null or j.last_error_code = :error::text)
  and :since::timestamptz is null and :until::timestamptz is null
order by j.job_id desc limit :most::int;

-- name: ended_jobs
-- Jobs that ended, newest first.
select a.job_id as id, a.policy_id, p.url, h.name as host, a.queue, a.status, a.priority, a.retry_count, a.max_retries,
       coalesce(a.run_at, a.created_at) as run_at, a.created_at, a.locked_by, a.locked_at, archived_lock_end(a) as locked_until, a.lock_ttl_seconds, a.last_error, a.last_error_code,
       a.finished_at, coalesce(a.outcome_id, a.result_id) as result_id
from job_archive a join policy p on p.policy_id = a.policy_id join host h on h.host_id = a.host_id
where (:before::uuid is null or a.job_id < :before::uuid)
  and (:status::text is null or (a.status = :status::text and (a.status <> 'done') = (:status::text <> 'done')))
  and (:host::text is null or a.host_id = (select x.host_id from host x where x.name = :host::text))
  and (:policy_id::uuid is null or a.policy_id = :policy_id::uuid)
  and (:bot_id::text is null or a.locked_by = :bot_id::text)
  and (:policy_ids::uuid[] is null or a.policy_id = any(:policy_ids::uuid[]))
  and (:error::text is null or a.last_error_code = :error::text)
  and (:since::timestamptz is null or a.finished_at >= :since::timestamptz)
  and (:until::timestamptz is null or a.finished_at < :until::timestamptz)
-- As text the ids have no index: the jobs of a rare bot are found by its name, and sorted.
order by case when :rare_bot::boolean then a.job_id::text end collate "C" desc, a.job_id desc limit :most::int;

-- name: job
-- One job, whatever table holds it.
select j.job_id as id, j.policy_id, p.url, h.name as host, j.queue, j.status, j.priority, j.retry_count, j.max_retries,
       nullif(j.run_at, 'infinity') as run_at, j.created_at, j.locked_by, j.locked_at, j.locked_until, j.lock_ttl_seconds,
       j.last_error, j.last_error_code, j.finished_at, j.result_id
from job j join policy p on p.policy_id = j.policy_id join host h on h.host_id = j.host_id
where j.job_id = :job_id::uuid;

-- name: timeline
-- What happened to a job, oldest first.
select t.from_state as "from", t.to_state as "to", t.at, t.by, t.reason from job_timeline t
where t.job_id = :job_id::uuid order by t.step;

-- name: late_results
-- Results of a job that were refused as late, oldest first.
select late_id as id, job_id, bot_id, lock_token, reason, submission, received_at
from late_result where job_id = :job_id::uuid order by late_id;

-- name: results
-- Results, newest first.
select r.result_id as id, r.job_id, r.policy_id, p.url, r.bot_id, r.price, r.currency, r.title, r.in_stock,
       r.parsed_data, r.html_hash, r.crawl_duration, r.crawled_at
from stored_result r join policy p on p.policy_id = r.policy_id
where (:before::uuid is null or r.result_id < :before::uuid)
  and (:policy_ids::uuid[] is null or r.policy_id = any(:policy_ids::uuid[]))
  and (:currency::text is null or r.currency = :currency::text)
  and (:in_stock::boolean is null or r.in_stock = :in_stock::boolean)
  and (:since::timestamptz is null or r.crawled_at >= :since::timestamptz)
  and (:until::timestamptz is null or r.crawled_at < :until::timestamptz)
order by r.result_id desc limit :most::int;

-- name: policy_ids_of_url
-- Every policy that a URL ever had.
select policy_id from policy where url = :url::text;

-- name: result
-- One result with its page.
select r.result_id as id, r.job_id, r.policy_id, p.url, r.bot_id, r.price, r.currency, r.title, r.in_stock,
       r.parsed_data, r.html_hash, r.crawl_duration, r.crawled_at, x.body as raw_html, x.blob_key
from stored_result r join policy p on p.policy_id = r.policy_id
left join result_html x on x.result_id = r.result_id and x.crawled_at = r.crawled_at
where r.result_id = :result_id::uuid;

-- name: history
-- The value history of a policy, newest first.
select v.change_id, v.field, v.old, v.new, v.at, v.job_id from value_change v
where v.policy_id = :policy_id::uuid
  and (:field::text is null or v.field = :field::text)
  and (:before::bigint is null or v.change_id < :before::bigint)
order by v.change_id desc limit :most::int;

-- name: hosts
-- Hosts by name, with what is locked and what waits.
select h.name as host, h.max_concurrent, h.min_delay_seconds, h.next_at, h.cooling_until, h.cooling_reason,
  (select count(*) from job_active j where j.queue::"char" = any('{h,j,s}') and j.host_id = h.host_id and j.place = 'locked')::int as locked,
  (select count(*) from (select 1 from job_active j where j.host_id = h.host_id and j.place in ('free', 'gated') limit 10000) w)::int as waiting,
  (select count(*) from (select 1 from policy p where p.host_id = h.host_id and p.deleted_at is null limit 10000) w)::int as policies
from host h
where (:after::text is null or h.name > :after::text) and (:host::text is null or h.name = :host::text)
order by h.name limit :most::int;

-- name: cooling_periods
-- When a host was cooling, newest first.
select p.began_at, p.until, p.reason from host h join host_cooling p on p.host_id = h.host_id
where h.name = :host::text and p.until > now() - :span::interval order by p.began_at desc limit :most::int;

-- name: bots
-- Bots by id, with what they hold and did in the last day.
select b.bot_id, b.capabilities, b.last_seen_at,
  coalesce(h.held, 0)::int as locked,
  (select count(*) from bot_token t where t.bot_id = b.bot_id and t.revoked_at is null)::int as tokens,
  coalesce(a.pulls, 0)::int as pulls_24h, coalesce(a.pulled, 0)::int as pulled_24h, coalesce(a.done, 0)::int as done_24h,
  coalesce(a.failed, 0)::int as failed_24h, coalesce(a.late, 0)::int as late_24h,
  (a.duration / nullif(a.done, 0))::float8 as mean_duration_seconds
from bot b
left join (select j.locked_by, count(*) as held from job_active j where j.place = 'locked' group by 1) h on h.locked_by = b.bot_id
left join lateral (
  select sum(x.pulls) as pulls, sum(x.pulled) as pulled, sum(x.done) as done, sum(x.failed) as failed, sum(x.late) as late,
         sum(least(x.duration_seconds, 86400.0 * x.done)) as duration
  from bot_activity x where x.bot_id = b.bot_id and x.hour > now() - interval '24 hours') a on true
where (:after::text is null or b.bot_id > :after::text) and (:bot_id::text is null or b.bot_id = :bot_id::text)
order by b.bot_id limit :most::int;

-- name: why_facts
-- All that decides whether a policy is crawled now.
select s.enabled, s.next_run_at, p.deleted_at, p.job_queue, h.name as host, h.max_concurrent, h.min_delay_seconds, h.next_at,
       h.cooling_until, h.cooling_reason, j.job_id, j.place, j.queue, nullif(j.run_at, 'infinity') as run_at, j.retry_count, j.max_retries, j.locked_by,
       j.locked_until, p.pool, p.frequency_hours, p.priority as importance, p.hot, p.min_interval_hours, p.max_interval_hours,
       s.rate_shape, s.rate_days, s.daily_hours, s.interval_days, greatest(b.price, h.crawl_price) as price,
       coalesce(h.prior_shape, b.prior_shape) as prior_shape, coalesce(h.prior_days, b.prior_days) as prior_days, b.longest_days,
       (select d.pool from policy_due d where d.policy_id = p.policy_id) as waits_in_pool, b.budget_per_day,
       coalesce(s.brought_forward_at >= s.last_success_at, false) as brought_forward,
       (select count(*) from job_active x
        where x.queue::"char" = any('{h,j,s}') and x.host_id = p.host_id and x.place = 'locked')::int as held,
       (select max(b.last_seen_at) from bot b where coalesce(j.queue, p.job_queue) = any(b.capabilities)) as bot_seen_at,
       exists (select 1 from bot b where coalesce(j.queue, p.job_queue) = any(b.capabilities)
         and b.last_seen_at > now() - interval '2 minutes'
         and (select count(*) from (select 1 from job_active x where x.locked_by = b.bot_id and x.place = 'locked'
              limit :bot_cap::int) locks) < :bot_cap::int) as bot_below_cap,
       now() as at
from policy p
join policy_state s on s.policy_id = p.policy_id
join host h on h.host_id = p.host_id
left join job_active j on j.policy_id = p.policy_id
left join crawl_pool b on b.pool = p.pool
where p.policy_id = :policy_id::uuid;

-- name: count_active
-- Waiting and running jobs, counted up to a bound.
select count(*) filter (where place = 'locked')::int as locked, count(*) filter (where place <> 'locked')::int as pending
from (select place from job_active order by job_id limit :most::int) j;

-- name: estimate_ended
-- Ended jobs by state; the planner's own sample for large tables, an exact count for small ones.
select a.status, count(*)::int as jobs from (select status from job_archive limit :most::int) a group by 1;

-- name: last_hour
-- Jobs that finished in the last hour.
select a.status, count(*)::int as jobs, sum(a.retry_count)::int as retries from job_archive a
where a.finished_at > now() - interval '1 hour' group by 1;

-- name: last_hour_results
-- Results of the last hour.
select avg(least(r.crawl_duration, 86400))::float8 from stored_result r where r.crawled_at > now() - interval '1 hour';

-- name: overview
-- The figures that need no counting of jobs.
select
  (select count(*) from policy_state s where s.enabled)::int as enabled,
  (select count(*) from policy p where p.deleted_at is null)::int as policies,
  (select count(*) from (select 1 from policy_due d where d.pool is null and d.due_at <= now() order by d.due_at limit 100000) x)::int as due,
  coalesce(extract(epoch from now() - (select min(d.due_at) from policy_due d where d.pool is null and d.due_at <= now())), 0)::float8 as oldest_due,
  coalesce(extract(epoch from now() - (select min(j.created_at) from (
    select x.created_at from job_active x where x.place in ('free', 'gated') order by x.job_id limit 1) j)), 0)::float8 as oldest_pending,
  (select count(*) from host h where h.cooling_until > now())::int as hosts_cooling,
  (select count(*) from bot b where b.last_seen_at > now() - interval '2 minutes')::int as bots_alive,
  (select count(*) from (select 1 from outbox union all select 1 from event_waiting limit 100000) o)::int as outbox,
  coalesce(extract(epoch from now() - least((select o.occurred_at from outbox o order by o.seq limit 1), oldest_event_waiting())), 0)::float8 as outbox_age,
  (select count(*) from (select 1 from webhook_delivery d where d.head limit 100000) x)::int
    + (select count(*) from (select 1 from webhook_delivery d where d.state = 'pending' and not d.head limit 100000) x)::int as webhooks,
  (select count(*) from (select 1 from dead_letter d where d.replayed_at is null limit 100000) x)::int as dead_letters,
  now() as at;

-- name: queue_depths
-- Waiting jobs by queue and the age of the oldest that could run, for the metrics.
select q.queue,
  (select count(*) from (select 1 from job_active j where j.queue = q.queue and j.place = 'free' limit 1000000) x)::int
  + (select count(*) from (select 1 from job_active j join gate g on g.host_id = j.host_id and g.queue = j.queue
      where j.queue = q.queue and j.place = 'gated' limit 1000000) x)::int as depth
from unnest(array['http', 'js', 'special']) q(queue);
