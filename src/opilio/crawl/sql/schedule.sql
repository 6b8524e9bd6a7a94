-- name: schedule_alone
-- Schedulers take turns, batch by batch: cheaper than locking every row that is about to change.
select pg_advisory_xact_lock(hashtext('opilio.create_due'));

-- name: create_due
-- Turns due policies into jobs, many in one statement. A row that somebody changes in this moment is looked at again
-- before it gets a job, or left to the next batch.
with ripe as materialized (
  select d.ctid as tid, d.policy_id, d.last_success_at, d.interval_days, d.error_rate from crawl_state d
  where d.place = 'due' and d.due_pool is null and d.next_run_at <= coalesce(:now::timestamptz, now())
  order by d.next_run_at
  limit :most::int),
pools as materialized (  -- a budget pays out evenly; what was not used for 20 minutes is lost
  select b.pool, least(greatest(b.budget_per_day / 72, 1), b.tokens + b.budget_per_day
           * extract(epoch from coalesce(:now::timestamptz, now()) - b.tokens_at)::float8 / 86400) as tokens
  from crawl_pool b where b.budget_per_day is not null),
worth as materialized (
  select p.pool, d.* from pools p cross join lateral (
    select x.* from (
      (select a.ctid as tid, a.policy_id, a.last_success_at, a.interval_days, a.error_rate, true as due from crawl_state a
       where a.place = 'due' and a.due_pool = p.pool and a.next_run_at <= coalesce(:now::timestamptz, now())
       order by a.next_run_at limit least(floor(p.tokens), :most::int)::int)
      union all  -- idle bots may take the nearest pages early, still within the budget
      (select e.tid, e.policy_id, e.last_success_at, e.interval_days, e.error_rate, false from (
         select a.ctid as tid, a.policy_id, a.last_success_at, a.interval_days, a.error_rate, a.early_at from crawl_state a
         where :fill_idle::boolean and a.place = 'due' and a.due_pool = p.pool and a.next_run_at > coalesce(:now::timestamptz, now())
         order by a.next_run_at limit least(floor(p.tokens), 1000)::int) e
       where e.early_at <= coalesce(:now::timestamptz, now())
         and not exists (select 1 from crawl_state j where j.place in ('free', 'gated') limit 1))) x
    limit least(floor(p.tokens), :most::int)::int) d),
spent as (
  update crawl_pool b set tokens = p.tokens - w.taken, tokens_at = coalesce(:now::timestamptz, now()), created = b.created + w.taken
  from pools p join (select pool, count(*) as taken from worth group by pool) w using (pool)
  where b.pool = p.pool),
due as (
  select r.tid, r.policy_id, r.last_success_at, r.interval_days, r.error_rate, true as due from ripe r
  union all
  select w.tid, w.policy_id, w.last_success_at, w.interval_days, w.error_rate, w.due from worth w),
points as materialized (
  select (:error_points::int[])[1 + width_bucket(0::float8, :error_bands::float8[])] as no_errors,
    (:hot_points::int[])[1 + width_bucket(1::float8, :hot_bands::float8[])] as hot,
    (:hot_points::int[])[1 + width_bucket(0::float8, :hot_bands::float8[])] as not_hot),
created as (
  update crawl_state s set
    job_id = opilio_uuid7(), host_id = p.host_id, queue = p.job_queue,
    place = case when :fleet_gated::boolean or p.host_id in (select h.host_id from host h where h.gated) then 'gated' else 'free' end,
    priority = rated.priority, base_priority = rated.priority, retry_count = 0, max_retries = p.max_retries,
    run_at = coalesce(:now::timestamptz, now()), created_at = coalesce(:now::timestamptz, now()), created_by = 'scheduler',
    last_error = null, last_error_code = null
  from due
  join policy p on p.policy_id = due.policy_id
  cross join lateral (select least(100, greatest(0, p.priority
      + (:overdue_points::int[])[1 + width_bucket(
          coalesce(extract(epoch from coalesce(:now::timestamptz, now()) - due.last_success_at)::float8, 0) / (greatest(case when p.pool is null then p.frequency_hours else coalesce(due.interval_days * 24, p.frequency_hours) end, 1e-6) * 3600),
          :overdue_bands::float8[])]
      + case when due.error_rate = 0 then (select no_errors from points)  -- most pages: looked up once, not for each
          else (:error_points::int[])[1 + width_bucket(due.error_rate::float8, :error_bands::float8[])] end
      + case when p.hot then (select hot from points) else (select not_hot from points) end)) as priority offset 0) rated  -- offset 0: once, though it is used twice
  where s.ctid = due.tid and s.place = 'due' and (not due.due or s.next_run_at <= coalesce(:now::timestamptz, now()))
  returning s.host_id, s.queue, s.priority, s.place),
woken as (
  insert into gate as g (host_id, queue, top_priority, open_at)
  select c.host_id, c.queue, max(c.priority), coalesce(:now::timestamptz, now()) from created c
  where c.place = 'gated' group by c.host_id, c.queue order by 1, 2
  on conflict (host_id, queue) do update
    set top_priority = greatest(g.top_priority, excluded.top_priority), version = g.version + 1)
select greatest((select count(*) from ripe), (select coalesce(max(n), 0) from (select count(*) as n from worth group by pool) w)) as due, (select count(*) from created) as created;

-- name: restore_due
-- The safety net: enabled policies that are neither due nor have a job. It checks so many policies at a
-- time, in the order of their ids, and answers where the next run goes on: null after the last.
with batch as materialized (
  select s.policy_id, s.enabled and s.place is null as lost from crawl_state s
  where :after::uuid is null or s.policy_id > :after::uuid
  order by s.policy_id limit :most::int),
restored as (
  update crawl_state s set place = 'due', due_pool = case when s.last_success_at is not null then p.pool end
  from batch b join policy p on p.policy_id = b.policy_id
  where b.lost and s.policy_id = b.policy_id and s.enabled and s.place is null
  returning s.policy_id)
select (select count(*) from restored)::int as restored,
  case when (select count(*) from batch) = :most::int
    then (select s.policy_id from batch s order by s.policy_id desc limit 1) end as next;

-- name: restore_gates
-- The safety net: hosts whose waiting jobs stand behind no gate.
insert into gate as g (host_id, queue, top_priority, open_at)
select j.host_id, j.queue, max(j.priority), coalesce(:now::timestamptz, now()) from crawl_state j
where j.place = 'gated' and not exists (select 1 from gate g where g.host_id = j.host_id and g.queue = j.queue)
group by j.host_id, j.queue order by 1, 2
on conflict (host_id, queue) do update set version = g.version + 1;

-- name: drop_orphans
-- The safety net: jobs that came back after their policy was deleted.
update crawl_state s set place = null, job_id = null from policy p
where s.place = 'later' and s.run_at = 'infinity' and p.policy_id = s.policy_id and p.deleted_at is not null;
