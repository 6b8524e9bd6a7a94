-- What bots, hosts and webhooks did over time, for their charts.

-- name: bot_history
-- What a bot did, hour by hour; hours without work count as none.
select h.hour as at, coalesce(a.done, 0)::int as done, coalesce(a.failed, 0)::int as failed, coalesce(a.late, 0)::int as expired,
  coalesce(a.pulls, 0)::int as pulls, (a.duration_seconds / nullif(a.done + a.failed, 0))::float8 as mean_seconds,
  least(coalesce(a.duration_seconds, 0) / 3600, 1000)::float8 as busy  -- least alone would take no work for the most
from generate_series(date_trunc('hour', now() - :span::interval), date_trunc('hour', now()), interval '1 hour') h(hour)
left join bot_activity a on a.bot_id = :bot_id::text and a.hour = h.hour order by 1;

-- name: bot_errors
-- The errors of a bot among the newest failed and expired jobs of all bots, the most frequent first.
select coalesce(x.last_error_code, x.status) as code, count(*)::int as jobs, max(x.finished_at) as last_at from (
  select a.status, a.last_error_code, a.finished_at, a.locked_by from job_archive a
  where a.status <> 'done' order by a.job_id desc limit 5000) x
where x.locked_by = :bot_id::text group by 1 order by 2 desc limit 10;

-- name: host_history
-- How the jobs of a host ended, hour by hour: from the jobs of its policies that were created since then.
select h.hour as at, count(a.job_id) filter (where a.status = 'done')::int as done,
  count(a.job_id) filter (where a.status = 'failed')::int as failed, count(a.job_id) filter (where a.status = 'expired')::int as expired,
  count(a.job_id) filter (where a.last_error_code = 'RATE_LIMITED')::int as rate_limited
from generate_series(date_trunc('hour', now() - :span::interval), date_trunc('hour', now()), interval '1 hour') h(hour)
left join (
  select a.job_id, a.status, a.last_error_code, a.finished_at
  from (select p.policy_id from host x join policy p on p.host_id = x.host_id and p.deleted_at is null
        where x.name = :host::text order by p.policy_id desc limit 5000) p
  cross join lateral (
    select a.job_id, a.status, a.last_error_code, a.finished_at from job_archive a
    where a.policy_id = p.policy_id and a.job_id >= :oldest::uuid and a.finished_at >= date_trunc('hour', now() - :span::interval) order by a.job_id desc limit 200) a) a
  on a.finished_at >= h.hour and a.finished_at < h.hour + interval '1 hour'
group by 1 order by 1;

-- name: webhook_history
-- Deliveries of an endpoint, hour by hour, and how long its answers took.
select h.hour as at, count(a.at) filter (where a.outcome = 'delivered')::int as delivered,
  count(a.at) filter (where a.outcome <> 'delivered')::int as failed, (avg(a.latency_ms))::float8 as latency_ms
from generate_series(date_trunc('hour', now() - :span::interval), date_trunc('hour', now()), interval '1 hour') h(hour)
left join (
  select a.at, a.outcome, a.latency_ms from webhook_attempt a
  where a.endpoint_id = :endpoint_id::uuid and a.attempt_id >= :oldest::uuid order by a.attempt_id desc limit 50000) a
  on a.at >= h.hour and a.at < h.hour + interval '1 hour'
group by 1 order by 1;

-- name: cooling_of_hosts
-- Which of these hosts are left alone now, and until when.
select h.name as host, h.cooling_until from host h where h.name = any(:hosts::text[]) and h.cooling_until > now();

-- name: in_one_process
set local max_parallel_workers_per_gather = 0;

-- name: newest_by_url
-- Those of the newest policies whose URL has this text, newest first; URLs are ASCII.
select p.policy_id as id from (select policy_id, url, deleted_at from policy order by policy_id desc limit :tried::int) p
where position(lower(:q::text) in lower(p.url collate "C")) > 0 and (:with_deleted::boolean or p.deleted_at is null)
order by p.policy_id desc limit :most::int;

-- name: newest_by_title
-- Those of the newest policies whose name has this text, newest first.
select s.policy_id as id from (select policy_id, last_title, enabled from policy_state order by policy_id desc limit :tried::int) s
where position(lower(:q::text) in case when :is_ascii::boolean then lower(s.last_title collate "C") else lower(s.last_title) end) > 0
  and (:with_deleted::boolean or s.enabled or (select p.deleted_at is null from policy p where p.policy_id = s.policy_id))
order by s.policy_id desc limit :most::int;

-- name: policies_by_url
-- Policies whose URL has this text, newest first. No index has "nulls last": one pass over the table is faster than an index that
-- leads to every row.
select p.policy_id as id from policy p
where position(lower(:q::text) in lower(p.url collate "C")) > 0 and (:with_deleted::boolean or p.deleted_at is null)
order by p.policy_id desc nulls last limit :most::int;

-- name: policies_by_title
-- Policies whose name has this text, or whose article number it is, newest first; in one pass, too.
select s.policy_id as id from policy_state s
where (position(lower(:q::text) in case when :is_ascii::boolean then lower(s.last_title collate "C") else lower(s.last_title) end) > 0
    or s.last_data ->> 'sku' = :q::text)
  and (:with_deleted::boolean or s.enabled or (select p.deleted_at is null from policy p where p.policy_id = s.policy_id))
order by s.policy_id desc nulls last limit :most::int;

-- name: jobs_of_bot_among_newest
-- How many of the newest jobs a bot ended, counted up to a page.
select count(*)::int from (
  select 1 from (
    select a.locked_by from job_archive a
    where :before::uuid is null or a.job_id < :before::uuid
    order by a.job_id desc limit :tried::int) newest
  where newest.locked_by = :bot_id::text limit :most::int) x;

-- name: policies_of_host
-- The policies of a host, deleted ones too, and those whose URL was on it before.
select x.policy_id as id from host h cross join lateral (
  select p.policy_id from policy p where p.host_id = h.host_id and p.deleted_at is null
  union all
  select p.policy_id from policy p where p.host_id = h.host_id and p.deleted_at is not null
  union
  select f.policy_id from former_host f where f.host_id = h.host_id) x
where h.name = :host::text limit :most::int;
