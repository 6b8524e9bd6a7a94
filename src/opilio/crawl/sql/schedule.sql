-- name: schedule_alone
-- Schedulers take turns, batch by batch: cheaper than locking every row that is about to be deleted.
select pg_advisory_xact_lock(hashtext('opilio.create_due'));

-- name: create_due
-- Turns due policies into jobs, many in one statement. A row of policy_due that somebody moves in this moment is
-- looked at again before it goes. A policy that was disabled meanwhile loses its row; one that has a job already
-- keeps that, and the unique index on job_active stands behind it.
with ripe as materialized (
  select d.ctid as place from policy_due d
  where d.due_at <= coalesce(:now::timestamptz, now()) and d.pool is null
  order by d.due_at
  limit :most::int),
pools as materialized (  -- a budget pays out evenly; what was not used for 20 minutes is lost
  select b.pool, least(greatest(b.budget_per_day / 72, 1), b.tokens + b.budget_per_day
           * extract(epoch from coalesce(:now::timestamptz, now()) - b.tokens_at)::float8 / 86400) as tokens
  from crawl_pool b where b.budget_per_day is not null),
worth as materialized (
  select p.pool, d.place, d.due from pools p cross join lateral (
    select x.place, x.due from (
      (select a.ctid as place, true as due from policy_due a
       where a.pool = p.pool and a.due_at <= coalesce(:now::timestamptz, now())
       order by a.due_at limit least(floor(p.tokens), :most::int)::int)
      union all  -- idle bots may take the nearest pages early, still within the budget
      (select e.place, false from (
         select a.ctid as place, a.early_at from policy_due a
         where :fill_idle::boolean and a.pool = p.pool and a.due_at > coalesce(:now::timestamptz, now())
         order by a.due_at limit least(floor(p.tokens), 1000)::int) e
       where e.early_at <= coalesce(:now::timestamptz, now())
         and not exists (select 1 from job_active j where j.place in ('free', 'gated') limit 1))) x
    limit least(floor(p.tokens), :most::int)::int) d),
spent as (
  update crawl_pool b set tokens = p.tokens - w.taken, tokens_at = coalesce(:now::timestamptz, now()), created = b.created + w.taken
  from pools p join (select pool, count(*) as taken from worth group by pool) w using (pool)
  where b.pool = p.pool),
due as (
  delete from policy_due d using (select place, true as due from ripe union all select place, due from worth) ripe
  where d.ctid = ripe.place and (not ripe.due or d.due_at <= coalesce(:now::timestamptz, now()))
  returning d.policy_id),
created as (
  insert into job_active (policy_id, host_id, queue, place, priority, base_priority, max_retries, run_at, created_at, created_by)
  select p.policy_id, p.host_id, p.job_queue,
         case when h.gated or :fleet_gated::boolean then 'gated' else 'free' end,
         rated.priority, rated.priority, p.max_retries, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()), 'scheduler'
  from due
  join policy p on p.policy_id = due.policy_id
  join policy_state s on s.policy_id = due.policy_id
  join host h on h.host_id = p.host_id
  cross join lateral (select least(100, greatest(0, p.priority
      + (:overdue_points::int[])[1 + width_bucket(
          coalesce(extract(epoch from coalesce(:now::timestamptz, now()) - s.last_success_at)::float8, 0) / (greatest(case when p.pool is null then p.frequency_hours else coalesce(s.interval_days * 24, p.frequency_hours) end, 1e-6) * 3600),
          :overdue_bands::float8[])]
      + (:error_points::int[])[1 + width_bucket(s.error_rate::float8, :error_bands::float8[])]
      + (:hot_points::int[])[1 + width_bucket(p.hot::int::float8, :hot_bands::float8[])])) as priority offset 0) rated  -- offset 0: once, though it is used twice
  where s.enabled and not exists (select 1 from job_active a where a.policy_id = due.policy_id)
  returning host_id, queue, priority, place),
woken as (
  insert into gate as g (host_id, queue, top_priority, open_at)
  select c.host_id, c.queue, max(c.priority), coalesce(:now::timestamptz, now()) from created c
  where c.place = 'gated' group by c.host_id, c.queue order by 1, 2
  on conflict (host_id, queue) do update
    set top_priority = greatest(g.top_priority, excluded.top_priority), version = g.version + 1)
select greatest((select count(*) from ripe), (select coalesce(max(n), 0) from (select count(*) as n from worth group by pool) w)) as due, (select count(*) from created) as created;

-- name: restore_due
-- The safety net: enabled policies that have neither a job nor a row in policy_due. It checks so many policies at a
-- time, in the order of their ids, and answers where the next run goes on: null after the last.
with batch as materialized (
  select s.policy_id, s.enabled, s.next_run_at, s.last_success_at from policy_state s
  where :after::uuid is null or s.policy_id > :after::uuid
  order by s.policy_id limit :most::int),
restored as (
  insert into policy_due (policy_id, due_at, pool)
  select s.policy_id, s.next_run_at, case when s.last_success_at is not null then p.pool end
  from batch s join policy p on p.policy_id = s.policy_id
  where s.enabled
    and not exists (select 1 from policy_due d where d.policy_id = s.policy_id)
    and not exists (select 1 from job_active j where j.policy_id = s.policy_id)
  on conflict (policy_id) do nothing returning policy_id)
select (select count(*) from restored)::int as restored,
  case when (select count(*) from batch) = :most::int
    then (select s.policy_id from batch s order by s.policy_id desc limit 1) end as next;

-- name: restore_gates
-- The safety net: hosts whose waiting jobs stand behind no gate.
insert into gate as g (host_id, queue, top_priority, open_at)
select j.host_id, j.queue, max(j.priority), coalesce(:now::timestamptz, now()) from job_active j
where j.place = 'gated' and not exists (select 1 from gate g where g.host_id = j.host_id and g.queue = j.queue)
group by j.host_id, j.queue order by 1, 2
on conflict (host_id, queue) do update set version = g.version + 1;

-- name: hold_disabled
-- The safety net: waiting jobs of policies that were switched off in the moment the job was made.
update job_active j set place = 'later', run_at = 'infinity' from policy_state s
where s.policy_id = j.policy_id and not s.enabled and j.created_by = 'scheduler' and j.place in ('free', 'gated');

-- name: drop_orphans
-- The safety net: waiting jobs whose policy was deleted while they were made, or ran.
delete from job_active j using policy p
where p.policy_id = j.policy_id and p.deleted_at is not null and j.place <> 'locked';
