-- name: learnt_schedule
-- What an adaptive policy has learnt, with all that decides its next visit.
select p.pool, p.frequency_hours, p.priority as importance, p.hot, p.min_interval_hours, p.max_interval_hours,
       s.rate_shape, s.rate_days, s.daily_hours, s.interval_days, s.visits, s.changes_seen, s.next_run_at,
       case when s.brought_forward_at >= s.last_success_at then s.brought_forward_at end as brought_forward_at,
       greatest(b.price, h.crawl_price) as price, coalesce(h.prior_shape, b.prior_shape) as prior_shape,
       coalesce(h.prior_days, b.prior_days) as prior_days, coalesce(h.prior_hours, b.prior_hours) as prior_hours, b.longest_days
from policy p
join policy_state s on s.policy_id = p.policy_id
join host h on h.host_id = p.host_id
left join crawl_pool b on b.pool = p.pool
where p.policy_id = :policy_id::uuid and p.deleted_at is null;

-- name: pools
-- The budgets of adaptive policies.
select b.pool, b.pages, b.budget_per_day, b.price, b.demand, b.created,
       greatest(0, coalesce(extract(epoch from now() - (
         select d.due_at from policy_due d where d.pool = b.pool order by d.due_at limit 1)), 0) / 86400)::float8 as waiting_days
from crawl_pool b order by b.pool;

-- name: adaptive_pages
-- The visited pages of a pool, with all that decides their next visit.
select p.url, p.frequency_hours, p.priority as importance, p.hot, p.min_interval_hours, p.max_interval_hours,
       s.rate_shape, s.rate_days, s.daily_hours, s.interval_days,
       greatest(b.price, h.crawl_price) as price, coalesce(h.prior_shape, b.prior_shape) as prior_shape,
       coalesce(h.prior_days, b.prior_days) as prior_days, b.longest_days
from policy p
join policy_state s on s.policy_id = p.policy_id
join host h on h.host_id = p.host_id
join crawl_pool b on b.pool = p.pool
where p.pool = :pool::text and p.deleted_at is null and s.enabled and s.interval_days is not null
limit :most::int;

-- name: fixed_histories
-- Fixed policies that were visited more than once: when, and at which visits a value changed.
select p.url, p.frequency_hours, p.priority as importance, p.hot, p.min_interval_hours, p.max_interval_hours,
       null::float8 as price, null::float8 as longest_days, v.visited,
       coalesce((select array_agg(distinct c.at) from value_change c where c.policy_id = p.policy_id), '{}') as changed
from policy p
join policy_state s on s.policy_id = p.policy_id
join host h on h.host_id = p.host_id
cross join lateral (
  select array_agg(r.crawled_at order by r.crawled_at) as visited from (
    select x.crawled_at from stored_result x where x.policy_id = p.policy_id order by x.crawled_at desc limit 200) r) v
where p.schedule = 'fixed' and p.deleted_at is null and s.enabled and cardinality(v.visited) > 1
  and (:host::text is null or h.name = :host::text)
limit :most::int;
