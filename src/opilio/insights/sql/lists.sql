-- The dashboard's lists: the same filters choose what is shown, what is counted and what a bulk action touches.

-- name: plan_for_these_values
-- An unset filter must cost nothing, so each query is planned with its values.
set local plan_cache_mode = force_custom_plan;

-- name: policy_list
-- Policies by a chosen order, a page at a time. Rows are chosen first, on narrow columns, and filled in afterwards. An
-- order that is not chosen is a constant to the planner: newest, by priority and by URL are read from an index. By next
-- run they are chosen from the states alone where the filter allows: no index can order what every crawl rewrites, and a
-- policy that is enabled was not deleted, so few have to be looked up.
with chosen as materialized (
  select policy_id, row_number() over () as place from (
    (select p.policy_id from policy p join policy_state s on s.policy_id = p.policy_id
    where not (:by_state::boolean) and p.deleted_at is null
      and (:enabled::boolean is null or s.enabled = :enabled::boolean)
      and (:host::text is null or p.host_id = (select x.host_id from host x where x.name = :host::text))
      and (:policy_ids::uuid[] is null or p.policy_id = any(:policy_ids::uuid[]))
      and (:q::text is null or position(lower(:q::text) in lower(p.url collate "C")) > 0
        or position(lower(:q::text) in lower(s.last_title)) > 0
        or s.last_data ->> 'sku' = :q::text)
      and (:queue::text is null or p.job_queue = :queue::text)
      and (:is_hot::boolean is null or p.hot = :is_hot::boolean)
      and (:failing::boolean is null or (s.failure_count > 0) = :failing::boolean)
      and (:due::boolean is null or (s.next_run_at <= now()) = :due::boolean)
      and (:label_key::text is null or p.labels ->> :label_key::text = :label_value::text)
    order by
      case when :sort::text = 'next' and not :reverse::boolean then s.next_run_at end,
      case when :sort::text = 'next' and :reverse::boolean then s.next_run_at end desc,
      case when :sort::text = 'priority' and not :reverse::boolean then p.priority end desc,
      case when :sort::text = 'priority' and :reverse::boolean then p.priority end,
      case when :sort::text = 'failures' and not :reverse::boolean then s.failure_count end desc,
      case when :sort::text = 'failures' and :reverse::boolean then s.failure_count end,
      case when :sort::text = 'price' and not :reverse::boolean then s.last_price end desc nulls last,
      case when :sort::text = 'price' and :reverse::boolean then s.last_price end nulls last,
      case when :sort::text = 'url' and not :reverse::boolean then p.url end,
      case when :sort::text = 'url' and :reverse::boolean then p.url end desc,
      case when :reverse::boolean then p.policy_id end,
      p.policy_id desc
    limit :most::int offset :skip::int)
    union all
    (select s.policy_id from policy_state s
    where :by_state::boolean
      and (:enabled::boolean is null or s.enabled = :enabled::boolean)
      and (:failing::boolean is null or (s.failure_count > 0) = :failing::boolean)
      and (:due::boolean is null or (s.next_run_at <= now()) = :due::boolean)
      -- a scalar, because the planner would answer "exists" from a hash of all policies
      and case when s.enabled then true else (select p.deleted_at is null from policy p where p.policy_id = s.policy_id) end
    order by s.next_run_at, s.policy_id desc
    limit :most::int offset :skip::int)) p)
select p.policy_id as id, p.url, h.name as host, s.enabled, p.frequency_hours, p.priority, p.job_queue as queue, p.hot, p.labels,
       s.next_run_at, s.last_success_at, s.last_failed_at, s.failure_count, s.error_rate, s.last_price, s.last_currency, s.last_title,
       s.last_in_stock, h.cooling_until, j.job_id, j.place, j.locked_by
from chosen c join policy p on p.policy_id = c.policy_id join policy_state s on s.policy_id = c.policy_id
join host h on h.host_id = p.host_id left join job_active j on j.policy_id = c.policy_id
order by c.place;

-- name: policy_ids
-- The ids of the policies that a filter chooses, oldest first, for a bulk action and for its preview; in no order where they are only counted.
select p.policy_id as id
from policy p join policy_state s on s.policy_id = p.policy_id
where p.deleted_at is null
  and (:after::uuid is null or p.policy_id > :after::uuid)
  and (:until::uuid is null or p.policy_id <= :until::uuid)
  and (:ids::uuid[] is null or p.policy_id = any(:ids::uuid[]))
  and (:enabled::boolean is null or s.enabled = :enabled::boolean)
  and (:host::text is null or p.host_id = (select x.host_id from host x where x.name = :host::text))
  and (:policy_ids::uuid[] is null or p.policy_id = any(:policy_ids::uuid[]))
  and (:q::text is null or position(lower(:q::text) in lower(p.url collate "C")) > 0
        or position(lower(:q::text) in lower(s.last_title)) > 0
        or s.last_data ->> 'sku' = :q::text)
  and (:queue::text is null or p.job_queue = :queue::text)
  and (:is_hot::boolean is null or p.hot = :is_hot::boolean)
  and (:failing::boolean is null or (s.failure_count > 0) = :failing::boolean)
  and (:due::boolean is null or (s.next_run_at <= now()) = :due::boolean)
  and (:label_key::text is null or p.labels ->> :label_key::text = :label_value::text)
order by case when :in_order::boolean then p.policy_id end limit :most::int;

-- name: policy_names
-- What people call some policies: the product, or else the URL.
select p.policy_id as id, coalesce(s.last_title, p.url) as name from policy p join policy_state s on s.policy_id = p.policy_id
where p.policy_id = any(:ids::uuid[]);

-- name: job_names
-- The same for jobs.
select j.job_id as id, coalesce(s.last_title, p.url) as name from job j join policy p on p.policy_id = j.policy_id
left join policy_state s on s.policy_id = p.policy_id where j.job_id = any(:ids::uuid[]);

-- name: waiting_job_ids
-- The ids of active jobs that a filter chooses, oldest first: by the order of their index also where they are only counted, because the
-- planner cannot know how few policies have a job.
select j.job_id as id, case j.place when 'locked' then 'locked' else 'pending' end as status
from job_active j
where (:after::uuid is null or j.job_id > :after::uuid) and (:until::uuid is null or j.job_id <= :until::uuid)
  and (:ids::uuid[] is null or j.job_id = any(:ids::uuid[]))
  and (:status::text is null or (j.place = 'locked') = (:status::text = 'locked'))
  and (:host::text is null or j.host_id = (select x.host_id from host x where x.name = :host::text))
  and (:policy_id::uuid is null or j.policy_id = :policy_id::uuid)
  and (:bot_id::text is null or (j.place = 'locked' and j.locked_by = :bot_id::text))
  and (:policy_ids::uuid[] is null or j.policy_id = any(:policy_ids::uuid[]))
  and (:error::text is null or j.last_error_code = :error::text)
  and :finished_since::timestamptz is null and :finished_until::timestamptz is null
order by j.job_id limit :most::int;

-- name: ended_job_ids
-- The ids of ended jobs that a filter chooses, oldest first or in no order.
select a.job_id as id, a.status
from job_archive a
where (:after::uuid is null or a.job_id > :after::uuid) and (:until::uuid is null or a.job_id <= :until::uuid)
  and (:ids::uuid[] is null or a.job_id = any(:ids::uuid[]))
  and (:status::text is null or (a.status = :status::text and (a.status <> 'done') = (:status::text <> 'done')))
  and (:host::text is null or a.host_id = (select x.host_id from host x where x.name = :host::text))
  and (:policy_id::uuid is null or a.policy_id = :policy_id::uuid)
  and (:bot_id::text is null or a.locked_by = :bot_id::text)
  and (:policy_ids::uuid[] is null or a.policy_id = any(:policy_ids::uuid[]))
  and (:error::text is null or a.last_error_code = :error::text)
  and (:finished_since::timestamptz is null or a.finished_at >= :finished_since::timestamptz)
  and (:finished_until::timestamptz is null or a.finished_at < :finished_until::timestamptz)
order by case when :in_order::boolean then a.job_id end limit :most::int;

-- name: host_list
-- Hosts, those that need attention first, or in a chosen order. An order by a count needs it of every host: one pass over the
-- rows that are counted; the other counts are those of the hosts that are shown.
with counted as materialized (
  select j.host_id, count(*) as n from job_active j where :sort::text = 'locked' and j.place = 'locked' group by 1
  union all
  select j.host_id, count(*) from job_active j where :sort::text = 'waiting' and j.place in ('free', 'gated') group by 1
  union all
  select p.host_id, count(*) from policy p where :sort::text = 'policies' and p.deleted_at is null group by 1
), shown as materialized (
  select h.host_id, coalesce(c.n, 0) * case when :reverse::boolean then 1 else -1 end as by_count,
    case when :sort::text = 'host' and :reverse::boolean then h.name end as by_name,
    case when :sort::text = 'attention' then greatest(h.cooling_until, now()) end as by_attention
  from host h left join counted c using (host_id)
  where (:q::text is null or position(lower(:q::text) in h.name) > 0)
    and (:cooling::boolean is null or (h.cooling_until > now()) = :cooling::boolean)
  order by by_count, by_name desc, by_attention desc, h.name limit :most::int offset :skip::int
)
select h.name as host, h.max_concurrent, h.min_delay_seconds, h.next_at, h.cooling_until, h.cooling_reason, h.strikes,
  (select count(*) from job_active j where j.queue::"char" = any('{h,j,s}') and j.host_id = h.host_id and j.place = 'locked')::int as locked,
  (select count(*) from (select 1 from job_active j where j.host_id = h.host_id and j.place in ('free', 'gated') limit 1000) w)::int as waiting,
  (select count(*) from (select 1 from policy p where p.host_id = h.host_id and p.deleted_at is null limit 1000) w)::int as policies
from shown s join host h using (host_id) order by s.by_count, s.by_name desc, s.by_attention desc, h.name;

-- name: error_rate_of_hosts
-- How crawls of some hosts went lately, from the states of their policies.
select h.name as host, avg(x.error_rate)::float8 as error_rate from host h cross join lateral (
  select s.error_rate from policy p join policy_state s on s.policy_id = p.policy_id
  where p.host_id = h.host_id and p.deleted_at is null and coalesce(s.last_success_at, s.last_failed_at) is not null limit 1000) x
where h.name = any(:hosts::text[]) group by 1;

-- name: bot_hours
-- What bots did, hour by hour.
select a.bot_id, a.hour, a.done::int, a.failed::int from bot_activity a
where a.bot_id = any(:bots::text[]) and a.hour > now() - interval '24 hours' order by a.bot_id, a.hour;

-- name: values_of_policy
-- The history of one value, oldest first, for a chart.
select v.at, v.new as value from (
  select v.change_id, v.at, v.new from value_change v
  where v.policy_id = :policy_id::uuid and v.field = :field::text order by v.change_id desc limit 1000) v
order by v.change_id;

-- name: fields_of_policy
-- The values that a policy has a history of.
select distinct v.field from (select field from value_change where policy_id = :policy_id::uuid order by change_id desc limit 5000) v
order by 1 limit 60;

-- name: last_values
-- What the last crawl of a policy found.
select s.last_price, s.last_currency, s.last_title, s.last_in_stock, s.last_data, s.last_result_id
from policy_state s where s.policy_id = :policy_id::uuid;
