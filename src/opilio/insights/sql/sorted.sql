-- Long lists in a chosen order, and how long they are. Sorting and counting stop at a bound: the newest rows that a filter
-- chooses, or the oldest where those are asked for.

-- name: sorted_jobs
-- Jobs in a chosen order.
with found as materialized (
  (select j.job_id, j.priority, j.retry_count, j.created_at as time from job_active j
  where :status::text is distinct from 'done' and :status::text is distinct from 'failed' and :status::text is distinct from 'expired'
    and (:status::text is null or (j.place = 'locked') = (:status::text = 'locked'))
    and (:host::text is null or j.host_id = (select x.host_id from host x where x.name = :host::text))
    and (:policy_id::uuid is null or j.policy_id = :policy_id::uuid)
    and (:bot_id::text is null or (j.place = 'locked' and j.locked_by = :bot_id::text))
    and (:policy_ids::uuid[] is null or j.policy_id = any(:policy_ids::uuid[]))
    and (:error::text is null or j.last_error_code = :error::text)
    and :finished_since::timestamptz is null and :finished_until::timestamptz is null
  order by case when :oldest::boolean then j.job_id end, j.job_id desc limit :bound::int)
  union all
  (select a.job_id, a.priority, a.retry_count, a.finished_at as time from job_archive a
  where :status::text is distinct from 'pending' and :status::text is distinct from 'locked'
    and (:status::text is null or (a.status = :status::text and (a.status <> 'done') = (:status::text <> 'done')))
    and (:host::text is null or a.host_id = (select x.host_id from host x where x.name = :host::text))
    and (:policy_id::uuid is null or a.policy_id = :policy_id::uuid)
    and (:bot_id::text is null or a.locked_by = :bot_id::text)
    and (:policy_ids::uuid[] is null or a.policy_id = any(:policy_ids::uuid[]))
    and (:error::text is null or a.last_error_code = :error::text)
    and (:finished_since::timestamptz is null or a.finished_at >= :finished_since::timestamptz)
    and (:finished_until::timestamptz is null or a.finished_at < :finished_until::timestamptz)
  -- As text the ids have no index: the jobs of a rare bot are found by its name, and sorted.
  order by case when :rare_bot::boolean and not :oldest::boolean then a.job_id::text end collate "C" desc,
    case when :rare_bot::boolean and :oldest::boolean then a.job_id::text end collate "C",
    case when :oldest::boolean then a.job_id end, a.job_id desc limit :bound::int)),
chosen as (
  select f.job_id, row_number() over () as number from (
    select f.job_id from found f
    order by
      case :sort::text when 'priority' then f.priority when 'retries' then f.retry_count
        when 'time' then extract(epoch from f.time)::float8 end * case when :reverse::boolean then 1 else -1 end,
      case when :oldest::boolean then f.job_id end, f.job_id desc
    limit :most::int offset :skip::int) f)
select j.job_id as id, j.policy_id, p.url, h.name as host, j.queue, j.status, j.priority, j.retry_count, j.max_retries,
       nullif(j.run_at, 'infinity') as run_at, j.created_at, j.locked_by, j.locked_at, j.locked_until, j.lock_ttl_seconds,
       j.last_error, j.last_error_code, j.finished_at, j.result_id
from chosen c cross join lateral (select * from job x where x.job_id = c.job_id limit 1) j  -- the limit tells the planner that there is one
join policy p on p.policy_id = j.policy_id join host h on h.host_id = j.host_id
order by c.number;

-- name: sorted_results
-- Results in a chosen order.
with found as materialized (
  select r.result_id, r.price, r.crawl_duration, r.crawled_at from stored_result r
  where (:policy_ids::uuid[] is null or r.policy_id = any(:policy_ids::uuid[]))
    and (:currency::text is null or r.currency = :currency::text)
    and (:in_stock::boolean is null or r.in_stock = :in_stock::boolean)
    and (:since::timestamptz is null or r.crawled_at >= :since::timestamptz)
    and (:until::timestamptz is null or r.crawled_at < :until::timestamptz)
  order by case when :oldest::boolean then r.result_id end, r.result_id desc limit :bound::int),
chosen as (
  select f.result_id, f.crawled_at, row_number() over () as number from (
    select f.result_id, f.crawled_at from found f
    order by
      case :sort::text when 'price' then f.price::float8 when 'duration' then f.crawl_duration end
        * case when :reverse::boolean then 1 else -1 end nulls last,
      case when :oldest::boolean then f.result_id end, f.result_id desc
    limit :most::int offset :skip::int) f)
select r.result_id as id, r.job_id, r.policy_id, p.url, r.bot_id, r.price, r.currency, r.title, r.in_stock,
       r.parsed_data, r.html_hash, r.crawl_duration, r.crawled_at
from chosen c join stored_result r on r.result_id = c.result_id and r.crawled_at = c.crawled_at
join policy p on p.policy_id = r.policy_id order by c.number;

-- name: count_results
-- How many results a filter chooses.
select count(*)::int from (select 1 from stored_result r
  where (:policy_ids::uuid[] is null or r.policy_id = any(:policy_ids::uuid[]))
    and (:currency::text is null or r.currency = :currency::text)
    and (:in_stock::boolean is null or r.in_stock = :in_stock::boolean)
    and (:since::timestamptz is null or r.crawled_at >= :since::timestamptz)
    and (:until::timestamptz is null or r.crawled_at < :until::timestamptz)
  limit :bound::int) r;

-- name: count_hosts
-- How many hosts a filter chooses.
select count(*)::int from (select 1 from host h
  where (:q::text is null or position(lower(:q::text) in h.name) > 0)
    and (:cooling::boolean is null or (h.cooling_until > now()) = :cooling::boolean)
  limit :bound::int) h;
