-- Prices of products: their trend on lists, the changes of a span of time, and the history for a chart.

-- name: price_points
-- The newest prices of some policies, newest first.
select i.policy_id, v.at, v.new::text::numeric as price
from unnest(:ids::uuid[]) i(policy_id) cross join lateral (
  select v.at, v.new, v.change_id from value_change v
  where v.policy_id = i.policy_id and v.field = 'price' and jsonb_typeof(v.new) = 'number'
  order by v.change_id desc limit :most::int) v
order by i.policy_id, v.change_id desc;

-- name: price_changes
-- Price changes since a moment in a chosen order. Sorting stops at a bound. Changes are put in order before products are looked up, as
-- floats, and what is not a number is left out afterwards: a condition on it would mislead the planner.
with lately as (
  select v.policy_id, v.job_id, v.at, v.old, v.new,
    case when jsonb_typeof(v.old) = 'number' then v.old::float8 end as before,
    case when jsonb_typeof(v.new) = 'number' then v.new::float8 end as after from value_change v
  where v.field = 'price' and v.old is not null and v.at > :since::timestamptz
    and (:policy_ids::uuid[] is null or v.policy_id = any(:policy_ids::uuid[]))
  order by v.at desc limit :bound::int),
moved as (
  select l.*, (l.after - l.before) / nullif(l.before, 0) as change from lately l where l.before is not null and l.after is not null),
ranked as (
  select m.*, case :sort::text when 'size' then abs(m.change) when 'change' then m.change when 'price' then m.after
      when 'newest' then extract(epoch from m.at)::float8 end * case when :reverse::boolean then 1 else -1 end as rank
  from moved m
  where (:least::float8 is null or abs(m.change) >= :least::float8)
    and (:direction::text is null or (m.change > 0) = (:direction::text = 'up'))
  order by rank nulls last, m.at desc, m.policy_id),
shown as (  -- "offset 0" has each product looked up by its key, in the order of the changes: the planner would read all products instead
  select m.*, p.*
  from ranked m cross join lateral (
    select p.url, p.host_id, p.labels, s.last_title as title, s.last_currency as currency, s.last_in_stock as in_stock
    from policy p join policy_state s on s.policy_id = p.policy_id
    where p.policy_id = m.policy_id and p.deleted_at is null
      and (:host::text is null or p.host_id = (select x.host_id from host x where x.name = :host::text))
      and (:q::text is null or position(lower(:q::text) in lower(coalesce(s.last_title, '') || ' ' || p.url)) > 0)
      and (:label_key::text is null or p.labels ->> :label_key::text = :label_value::text)
    offset 0) p
  order by
    case when :sort::text = 'product' and not :reverse::boolean then coalesce(p.title, p.url) end,
    case when :sort::text = 'product' and :reverse::boolean then coalesce(p.title, p.url) end desc,
    m.rank nulls last, m.at desc, m.policy_id
  limit :most::int offset :skip::int)
select m.policy_id as id, m.job_id, m.at, m.old::numeric as old, m.new::numeric as new, m.change, m.url, h.name as host, m.labels,
  m.title, m.currency, m.in_stock
from shown m join host h on h.host_id = m.host_id
order by
    case when :sort::text = 'product' and not :reverse::boolean then coalesce(m.title, m.url) end,
    case when :sort::text = 'product' and :reverse::boolean then coalesce(m.title, m.url) end desc,
    m.rank nulls last, m.at desc, m.policy_id;

-- name: count_price_changes
-- How many prices rose and fell since a moment; counting stops at a bound.
with lately as (
  select case when jsonb_typeof(v.old) = 'number' then v.old::float8 end as before,
    case when jsonb_typeof(v.new) = 'number' then v.new::float8 end as after from value_change v
  where v.field = 'price' and v.old is not null and v.at > :since::timestamptz order by v.at desc limit :bound::int)
select count(*)::int as total, count(*) filter (where l.after > l.before)::int as up, count(*) filter (where l.after < l.before)::int as down
from lately l where l.before is not null and l.after is not null;

-- name: price_histories
-- The price history of a few policies, oldest first, for a chart that compares them.
select v.policy_id as id, coalesce(s.last_title, p.url) as title, s.last_currency as currency, v.at, v.new::text::numeric as price
from unnest(:ids::uuid[]) i(policy_id) join policy p on p.policy_id = i.policy_id and p.deleted_at is null
join policy_state s on s.policy_id = p.policy_id cross join lateral (
  select v.policy_id, v.at, v.new, v.change_id from value_change v
  where v.policy_id = i.policy_id and v.field = 'price' and jsonb_typeof(v.new) = 'number'
  order by v.change_id desc limit 1000) v
order by v.policy_id, v.change_id;

-- name: stock_changes
-- When a policy's product went out of stock and came back, oldest first.
select v.at, v.new = 'true'::jsonb as in_stock from value_change v
where v.policy_id = :policy_id::uuid and v.field = 'in_stock' order by v.change_id desc limit 500;

-- name: failed_crawls
-- When crawls of a policy failed, newest first.
select a.job_id, a.finished_at as at, a.status, coalesce(a.last_error_code, a.status) as code from job_archive a
where a.policy_id = :policy_id::uuid and a.status <> 'done' order by a.finished_at desc limit 200;
