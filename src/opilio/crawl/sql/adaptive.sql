-- name: add_pools
-- The pools of these policies exist; their budgets are set by the next refit.
insert into crawl_pool (pool)
select distinct p.pool from policy p where p.policy_id = any(:policy_ids::uuid[]) and p.pool is not null
order by 1 on conflict (pool) do nothing;

-- name: forget_validators
-- The next visit fetches the page whole: another URL, or rules that read it differently.
update crawl_state s set etag = null, last_modified = null
where s.policy_id = any(:policy_ids::uuid[]) and (s.etag is not null or s.last_modified is not null);

-- name: set_schedule
-- Switches the schedule of policies.
update policy p set schedule = :schedule::text, updated_at = now()
where p.policy_id = any(:policy_ids::uuid[]) and p.deleted_at is null and p.schedule <> :schedule::text;

-- name: follow_schedules
-- The places of policies among the due ones follow a change of schedule or labels. One that is fixed again is due by
-- its frequency; what was learnt stays.
update crawl_state s set
  due_pool = case when s.last_success_at is not null then p.pool end, early_at = null,
  next_run_at = case when s.due_pool is null or (s.last_success_at is not null and p.pool is not null) then s.next_run_at
    else least(s.next_run_at, greatest(
      coalesce(:now::timestamptz, now()),
      coalesce(s.last_success_at, coalesce(:now::timestamptz, now())) + make_interval(secs => p.frequency_hours * 3600))) end
from policy p
where p.policy_id = any(:policy_ids::uuid[]) and p.deleted_at is null and s.policy_id = p.policy_id and s.place = 'due'
  and s.due_pool is distinct from case when s.last_success_at is not null then p.pool end;

-- name: take_pools
-- All pools once one of them is due for a refit, locked, so that one scheduler does it at a time.
select b.pool, b.budget_per_day, b.price, b.delta, b.created, b.created_before, b.refitted_at, b.prior_shape, b.prior_days,
       coalesce(:now::timestamptz, now()) as at,
       (select d.next_run_at from crawl_state d where d.place = 'due' and d.due_pool = b.pool order by d.next_run_at limit 1) as first_due
from crawl_pool b
where exists (
  select 1 from crawl_pool x
  where x.refitted_at is null or x.refitted_at <= coalesce(:now::timestamptz, now()) - make_interval(secs => :every::float8))
order by b.pool for update skip locked;

-- name: pool_demand
-- What the stored plans of a pool ask for, host by host, at a price of 1.
select h.host_id, h.name as host, h.min_delay_seconds, h.crawl_price,
       count(*)::int as pages,
       count(*) filter (where s.last_success_at is null)::int as never_visited,
       coalesce(sum(power(s.price_used, :elasticity::float8) / s.interval_days), 0)::float8 as plan,
       sum(24 / p.frequency_hours)::float8 as base
from policy p
join crawl_state s on s.policy_id = p.policy_id
join host h on h.host_id = p.host_id
where p.pool = :pool::text and p.deleted_at is null and s.enabled
group by h.host_id;

-- name: pool_weights
-- How many pages of a pool have which priority, frequency and bounds: enough for a first price.
select p.priority, p.hot, p.frequency_hours, p.min_interval_hours, p.max_interval_hours, count(*)::int as pages
from policy p join crawl_state s on s.policy_id = p.policy_id
where p.pool = :pool::text and p.deleted_at is null and s.enabled
group by 1, 2, 3, 4, 5;

-- name: set_pool
-- The outcome of a refit.
update crawl_pool b set
  budget_per_day = :budget::float8, price = :price::float8, delta = :delta::float8, longest_days = :longest::float8,
  pages = :pages::int, demand = :demand::float8, created_before = b.created,
  tokens_at = coalesce(b.tokens_at, :now::timestamptz, now()), refitted_at = coalesce(:now::timestamptz, now())
where b.pool = :pool::text;

-- name: set_host_prices
-- Hosts whose own limit binds; null takes the price away.
update host h set crawl_price = i.price
from unnest(:host_ids::int[], :prices::float8[]) i(host_id, price)
where h.host_id = i.host_id and h.crawl_price is distinct from i.price;

-- name: drop_pools
-- Pools without policies.
delete from crawl_pool b where not exists (select 1 from policy p where p.pool = b.pool and p.deleted_at is null);

-- name: pools_for_priors
-- Pools whose priors are older than a day.
select b.pool from crawl_pool b
where b.priors_at is null or b.priors_at <= coalesce(:now::timestamptz, now()) - interval '24 hours'
order by b.pool for update skip locked;

-- name: observed_rates
-- Averages of the learnt rates of the adaptive pages that were observed, host by host.
select host_id, count(*)::float8 as pages, avg(shape / days)::float8 as mean,
       avg(opilio_digamma(shape) - ln(days))::float8 as mean_log
from (
  select p.host_id,
         greatest(s.rate_shape + coalesce(h.prior_shape, b.prior_shape, :shape::float8), 0.05) as shape,
         greatest(s.rate_days + coalesce(h.prior_days, b.prior_days, p.frequency_hours / 24), 1.0 / 86400) as days
  from policy p
  join crawl_state s on s.policy_id = p.policy_id
  join host h on h.host_id = p.host_id
  join crawl_pool b on b.pool = p.pool
  where p.pool is not null and p.deleted_at is null and s.rate_days is not null) observed
group by host_id;

-- name: set_priors
-- Fitted priors: one for everyone, one for each host with observed pages.
with hosts as (
  update host h set prior_shape = i.shape, prior_days = i.days
  from unnest(:host_ids::int[], :shapes::float8[], :days::float8[]) i(host_id, shape, days)
  where h.host_id = i.host_id)
update crawl_pool set prior_shape = coalesce(:shape::float8, prior_shape), prior_days = coalesce(:day::float8, prior_days),
  priors_at = coalesce(:now::timestamptz, now());

-- name: observed_hours
-- So many adaptive pages with what their visits say about daily hours, and what was assumed of them.
select p.policy_id, p.host_id, s.daily_hours, coalesce(h.prior_hours, b.prior_hours) as prior_hours
from policy p
join crawl_state s on s.policy_id = p.policy_id
join host h on h.host_id = p.host_id
join crawl_pool b on b.pool = p.pool
where p.pool is not null and p.deleted_at is null and s.daily_hours is not null
  and (:after::uuid is null or p.policy_id > :after::uuid)
order by p.policy_id limit :most::int;

-- name: set_habits
-- How likely unknown pages change daily, hour by hour: for everyone, and for each host with observed pages.
with hosts as (
  update host h set prior_hours = i.hours
  from unnest(:host_ids::int[], :host_hours::bytea[]) i(host_id, hours)
  where h.host_id = i.host_id)
update crawl_pool set prior_hours = :hours::bytea;

-- name: take_sibling_changes
-- Folders of hosts whose pages change together, in which a page changed.
with taken as (
  delete from sibling_change c
  where c.change_id in (
    select x.change_id from sibling_change x order by x.change_id limit :most::int for update skip locked)
  returning c.host_id, c.folder)
select distinct t.host_id, t.folder, h.siblings, h.sibling_sums[5] / h.sibling_sums[4] as mean from taken t join host h on h.host_id = t.host_id
where h.siblings is not null;

-- name: folder_pages
-- The visited adaptive pages of folders, with what decides whether one is worth a visit now.
select f.number, p.policy_id, p.min_interval_hours, s.last_success_at, s.interval_days, s.surprise, s.gap_days, case when s.place = 'due' then s.next_run_at end as due_at,
       greatest(coalesce(s.rate_shape, 0) + coalesce(h.prior_shape, b.prior_shape, 0.3), 0.05) as shape,
       greatest(coalesce(s.rate_days, 0) + coalesce(h.prior_days, b.prior_days, p.frequency_hours / 24), 1.0 / 86400) as days,
       coalesce(:now::timestamptz, now()) as at
from unnest(:host_ids::int[], :folders::bigint[]) with ordinality f(host_id, folder, number)
cross join lateral (
  select x.policy_id, x.host_id, x.pool, x.frequency_hours, x.min_interval_hours from policy x
  where x.host_id = f.host_id and opilio_folder(x.url) = f.folder and x.pool is not null and x.deleted_at is null
  limit :most::int) p
join crawl_state s on s.policy_id = p.policy_id
join host h on h.host_id = p.host_id
join crawl_pool b on b.pool = p.pool
where s.enabled and s.interval_days is not null and s.last_success_at is not null;

-- name: hurry
-- Adaptive pages become due now; the budget still decides when their jobs are made.
with hurried as (
  update crawl_state s set next_run_at = coalesce(:now::timestamptz, now()), brought_forward_at = coalesce(:now::timestamptz, now())
  where s.policy_id = any(:policy_ids::uuid[]) and s.place = 'due' and s.due_pool is not null
    and s.next_run_at > coalesce(:now::timestamptz, now())
  returning s.policy_id)
select count(*)::int from hurried;

-- name: recent_surprises
-- How surprises of recent visits went together in the folders of each host, around the host's mean.
select host_id, sum((total * total - squares) / visits)::float8 as products, sum(visits - 1)::float8 as pairs,
       sum(squares)::float8 as squares, sum(visits)::float8 as visits, sum(total + mean * visits)::float8 as total, max(sums) as sums
from (
  select p.host_id, sum(s.surprise - m.mean)::float8 as total, sum((s.surprise - m.mean) ^ 2)::float8 as squares,
         count(*)::float8 as visits, max(m.mean) as mean, max(h.sibling_sums) as sums
  from policy p
  join crawl_state s on s.policy_id = p.policy_id
  join host h on h.host_id = p.host_id
  cross join lateral (select coalesce(h.sibling_sums[5] / nullif(h.sibling_sums[4], 0), 0) as mean) m
  where p.pool is not null and p.deleted_at is null and s.surprise is not null
    and s.last_success_at > coalesce(:now::timestamptz, now()) - make_interval(days => :recent::int)
  group by p.host_id, opilio_folder(p.url)
  having count(*) <= :most::int) folders
group by host_id;

-- name: set_siblings
-- What was learnt about how changes come together.
update host h set siblings = i.correlation, sibling_sums = array[i.products, i.pairs, i.squares, i.visits, i.total]
from unnest(:host_ids::int[], :correlations::float8[], :products::float8[], :pairs::float8[], :squares::float8[], :visits::float8[],
            :totals::float8[]) i(host_id, correlation, products, pairs, squares, visits, total)
where h.host_id = i.host_id;
