-- name: look_before_pull
-- Whether jobs can be readied, whether any gate is open, and how many jobs each bot has locked, counted up to the cap.
with clock as (select coalesce(:now::timestamptz, now()) as at)
select exists (select 1 from crawl_state j where j.place = 'later' and j.run_at <= (select at from clock)) as any_ripe,
  exists (
    select 1 from generate_series(case when exists (select 1 from gate) then 100 else -1 end, 0, -1) p(priority)
    cross join unnest(:queues::text[]) q(queue)
    cross join lateral (
      select 1 from gate g
      where g.queue = q.queue and g.top_priority = p.priority and g.open_at <= (select at from clock)
      limit 1) g) as any_open,
  array(
    select (select count(*) from (
      select 1 from crawl_state j where j.locked_by = b.bot_id and j.place = 'locked' limit :cap::int) held)::int
    from unnest(:bots::text[]) with ordinality b(bot_id, place) order by b.place) as held;

-- name: ready_jobs
-- Readies jobs whose time has come; tells whether any of them wait behind a gate, which then is open.
with clock as (select coalesce(:now::timestamptz, now()) as at),
ripe as materialized (
  select j.job_id from crawl_state j
  where j.place = 'later' and j.run_at <= (select at from clock)
  order by j.run_at limit 1000
  for update skip locked),
ready as (
  update crawl_state j set place = case when h.gated or :fleet_gated::boolean then 'gated' else 'free' end
  from ripe cross join host h
  where j.job_id = ripe.job_id and h.host_id = j.host_id
  returning j.host_id, j.queue, j.priority, j.place),
woken as (
  insert into gate as g (host_id, queue, top_priority, open_at)
  select r.host_id, r.queue, max(r.priority), clock.at from ready r cross join clock
  where r.place = 'gated' group by r.host_id, r.queue, clock.at order by 1, 2
  on conflict (host_id, queue) do update
    set top_priority = greatest(g.top_priority, excluded.top_priority), version = g.version + 1
  returning host_id)
select exists (select 1 from woken);

-- name: take_gates
-- Locks the hosts behind open gates: best priority first, then longest open. A host that another pull holds is
-- passed over, so that pulls do not wait for each other, nor come back empty while other gates are open.
select h.* from generate_series(100, 0, -1) p(priority)
cross join unnest(:queues::text[]) q(queue)
cross join lateral (
  select h.host_id, h.max_concurrent, h.min_delay_seconds, h.next_at, h.cooling_until
  from gate g join host h on h.host_id = g.host_id
  where g.queue = q.queue and g.top_priority = p.priority and g.open_at <= coalesce(:now::timestamptz, now())
  order by g.open_at
  limit :most::int
  for no key update of h skip locked) h
limit :most::int;

-- name: count_locks
-- How many jobs each bot has locked, counted up to the cap, as look_before_pull does.
select b.bot_id, (select count(*) from (
  select 1 from crawl_state j where j.locked_by = b.bot_id and j.place = 'locked' limit :cap::int) held)::int as held
from unnest(:bots::text[]) b(bot_id);

-- name: take_bot
-- Pulls of one bot take turns while it is near its cap, so that what is counted stays true.
select pg_advisory_xact_lock(hashtext('opilio.bot'), hashtext(:bot_id::text));

-- name: hosts_in_domain
-- The domain itself and its subdomains, as far as they have waiting jobs.
select h.host_id, h.gated or :fleet_gated::boolean as gated from host h
where (h.name = :domain::text
       or (h.name_reversed ~>=~ reverse('.' || :domain::text) and h.name_reversed ~<~ reverse('/' || :domain::text)))
  and exists (
    select 1 from unnest(:queues::text[]) q(queue) cross join crawl_state j
    where j.host_id = h.host_id and j.queue::"char" = q.queue::"char" and j.queue = q.queue and j.place in ('free', 'gated'))
limit 1000;

-- name: take_hosts
-- Locks hosts whose limits a pull must respect; another pull that holds one keeps it.
select h.host_id, h.max_concurrent, h.min_delay_seconds, h.next_at, h.cooling_until
from host h where h.host_id = any(:host_ids::int[])
order by h.host_id
for no key update skip locked;

-- name: count_held
-- Jobs locked at this moment, per host; exact, because the hosts are ours since they were taken. The versions of
-- the gates tell close_gates whether anything happened after this look.
select h.host_id, coalesce(:now::timestamptz, now()) as at,
  (select count(*) from crawl_state j
   where j.queue::"char" = any('{h,j,s}') and j.host_id = h.host_id and j.place = 'locked')::int as held,
  array(select g.queue from gate g where g.host_id = h.host_id order by g.queue) as gate_queues,
  array(select g.version from gate g where g.host_id = h.host_id order by g.queue) as gate_versions
from unnest(:host_ids::int[]) h(host_id);

-- name: find_behind_gates
-- The best jobs host by host, as many as each host allows; locked, for lock_jobs.
select ranked.row_at, ranked.job_id, ranked.priority from (
  select j.row_at, j.job_id, j.priority, a.most,
         row_number() over (partition by a.host_id order by j.priority desc, j.job_id) as rank
  from unnest(:host_ids::int[], :allowed::int[]) a(host_id, most)
  cross join unnest(:queues::text[]) q(queue)
  cross join lateral (
    select w.ctid as row_at, w.job_id, w.priority from crawl_state w
    where w.host_id = a.host_id and w.queue::"char" = q.queue::"char" and w.queue = q.queue and w.place in ('free', 'gated')
    order by w.priority desc, w.created_at
    limit a.most
    for update skip locked) j) ranked
where ranked.rank <= ranked.most;

-- name: find_from_first
-- Jobs of hosts without limits from the first of each priority on, see dead_rows.py; locked, for lock_jobs. Those whose host has
-- limits now are told apart.
select j.row_at, j.job_id, j.priority, j.host_id, h.gated or :fleet_gated::boolean as gated
from unnest(:queues::text[]) q(queue)
cross join lateral (
  select j.* from unnest(:first_queues::text[], :first_priorities::int[], :first_ids::uuid[]) f(queue, priority, job_id)
  cross join lateral (
    select a.ctid as row_at, a.job_id, a.host_id, a.priority from crawl_state a
    where a.place = 'free' and a.queue = f.queue and a.priority = f.priority and a.job_id >= f.job_id
    order by a.job_id
    limit :most::int
    for update skip locked) j
  where f.queue = q.queue
  limit :most::int) j
join host h on h.host_id = j.host_id;

-- name: lock_jobs
-- Locks the best jobs for some bots, the best for the first slot; a bot has the slots from its first one up to that of the next bot. Jobs come from those
-- that were found already, and from those of hosts without limits: these lie in one index in order of priority, and are read from where the queue
-- begins (queue_start.py). Hosts that got limits after their jobs were made are told, to be parked.
-- With look_bots, only if nothing else is to be done first: no job can be readied, no gate is open, and none of these bots has more locks
-- than said; else the look is all that is answered. What a submit must know of a job comes with it, see known_locks.py.
-- The time of the look, not of the transaction: a job may have been created since that began. The rows come in any order, `ord` tells theirs.
with clock as (select coalesce(:now::timestamptz, clock_timestamp()) as at),
seen as materialized (
  select exists (select 1 from crawl_state j where j.place = 'later' and j.run_at <= (select at from clock)) as any_ripe,
    exists (
      select 1 from generate_series(case when exists (select 1 from gate) then 100 else -1 end, 0, -1) p(priority)
      cross join unnest(:free_queues::text[]) q(queue)
      cross join lateral (
        select 1 from gate g
        where g.queue = q.queue and g.top_priority = p.priority and g.open_at <= (select at from clock)
        limit 1) g) as any_open,
    array(
      select (select count(*) from (
        select 1 from crawl_state j where j.locked_by = b.bot_id and j.place = 'locked' limit greatest(b.most, 0) + 1) held)::int
      from unnest(:look_bots::text[], :look_most::int[]) with ordinality b(bot_id, most, place) order by b.place) as held
  where :look_bots::text[] is not null),
busy as materialized (
  select s.* from seen s
  where s.any_ripe or s.any_open or exists (select 1 from unnest(s.held, :look_most::int[]) b(held, most) where b.held > b.most)),
most as (select case when exists (select 1 from busy) then 0 else :slots::int end as jobs),
free as materialized (
  select j.row_at, j.job_id, j.priority, j.host_id,
    :fleet_gated::boolean or ((select exists (select 1 from host where gated))  -- nearly always none: one look for all jobs
      and exists (select 1 from host h where h.host_id = j.host_id and h.gated)) as gated
  from unnest(:free_queues::text[], :start_priorities::int[], :start_ids::uuid[]) q(queue, priority, job_id)
  cross join most
  cross join lateral (
    select e.* from (
      select s.* from (
        select a.ctid as row_at, a.job_id, a.host_id, a.priority from crawl_state a
        where a.place = 'free' and a.queue = q.queue and a.priority = q.priority and a.job_id >= q.job_id
        order by a.job_id limit most.jobs for update skip locked) s
      union all
      select s.* from (
        select a.ctid as row_at, a.job_id, a.host_id, a.priority from crawl_state a
        where a.place = 'free' and a.queue = q.queue and a.priority < q.priority
        order by a.priority desc, a.job_id limit most.jobs for update skip locked) s) e
    limit most.jobs) j),
chosen as (
  select c.row_at, row_number() over (order by c.priority desc, c.job_id) as ord from (
    select f.row_at, f.job_id, f.priority from free f where not f.gated
    -- [found
    union  -- a free job of a host that also has a gate is found twice
    select f.row_at, f.job_id, f.priority from unnest(:found_at::tid[], :found_ids::uuid[], :found_priorities::int[]) f(row_at, job_id, priority)
    -- found]
    ) c
  order by c.priority desc, c.job_id
  limit :slots::int),
locked as (
  update crawl_state j set
    place = :locked::text, locked_by = (:bots::text[])[width_bucket(c.ord::int, :first_slots::int[])], locked_at = clock.at,
    locked_until = clock.at + make_interval(secs => p.timeout_minutes * 60),
    lock_ttl_seconds = p.timeout_minutes * 60,
    lock_token = encode(substr(:tokens::bytea, c.ord::int * 16 - 15, 16), 'hex')::uuid
  from chosen c cross join clock cross join policy p
  where j.ctid = c.row_at and p.policy_id = j.policy_id  -- where the row is: it is locked since it was found
  returning c.ord, j.ctid::text as row_at, j.xmin::text as version, j.job_id, j.policy_id, j.host_id, j.priority, j.queue,
    j.max_retries, j.retry_count, j.locked_by, j.lock_ttl_seconds, j.locked_until, j.lock_token,
    p.url, nullif(p.crawl_config, '{}')::text as crawl_config, nullif(p.rule_set, '{}')::text as rule_set, p.frequency_hours, p.pool,
    j.etag, j.last_modified, j.error_rate, j.last_result_id, j.last_price, j.last_currency, j.last_title, j.last_in_stock, j.last_data
    -- [adaptive
    , case when p.pool is not null then j.last_html_hash end as last_html_hash,
    case when p.pool is not null then j.last_success_at end as last_success_at,
    case when p.pool is not null then p.priority end as importance, case when p.pool is not null then p.hot end as hot,
    p.min_interval_hours, p.max_interval_hours, j.rate_shape, j.rate_days, j.daily_hours
    -- adaptive]
    )
select l.*, true as known, (select exists (select 1 from value_alert where enabled)) as any_alerts,
  -- [adaptive
  greatest(b.price, h.crawl_price) as price, coalesce(h.prior_shape, b.prior_shape) as prior_shape,
  coalesce(h.prior_days, b.prior_days) as prior_days, coalesce(h.prior_hours, b.prior_hours) as prior_hours,
  b.longest_days, h.siblings,
  -- adaptive]
  (select array_agg(distinct f.host_id) from free f where f.gated) as to_park,
  (select any_ripe from busy) as any_ripe, (select any_open from busy) as any_open, (select held from busy) as held
from clock left join locked l on true
-- [adaptive
left join crawl_pool b on b.pool = l.pool  -- none for a fixed schedule
left join host h on h.host_id = case when l.pool is not null then l.host_id end
-- adaptive]

-- name: close_gates
-- After a visit: when each host may be visited again, and what is best behind its gates now. A gate with nothing
-- behind it goes. Where work was added or a lock ended since count_held looked (the version tells), the gate stays
-- and opens as soon as politeness allows.
with visited as materialized (
  select * from unnest(:host_ids::int[], :next_at::timestamptz[], :open_at::timestamptz[], :ready_at::timestamptz[],
    :gated::boolean[]) v(host_id, next_at, open_at, ready_at, gated)),
seen as materialized (
  select * from unnest(:gate_hosts::int[], :gate_queues::text[], :gate_versions::bigint[]) s(host_id, queue, version)),
visit as (
  update host h set next_at = v.next_at, gated = v.gated from visited v
  where h.host_id = v.host_id and (h.next_at, h.gated) is distinct from (v.next_at, v.gated)),
ordered as materialized (
  select s.host_id, s.queue, s.version from gate g join seen s on s.host_id = g.host_id and s.queue = g.queue
  order by g.host_id, g.queue for update of g),
behind as materialized (
  select s.host_id, s.queue, s.version, v.open_at, v.ready_at, best.priority
  from ordered s join visited v on v.host_id = s.host_id
  left join lateral (
    select j.priority from crawl_state j
    where j.host_id = s.host_id and j.queue::"char" = s.queue::"char" and j.queue = s.queue and j.place in ('free', 'gated')
    order by j.priority desc limit 1) best on true),
gone as (
  delete from gate g using behind b
  where g.host_id = b.host_id and g.queue = b.queue and b.priority is null and g.version = b.version)
update gate g set
  top_priority = case when g.version = b.version then b.priority else greatest(g.top_priority, b.priority) end,
  open_at = case when g.version = b.version then b.open_at else b.ready_at end
from behind b
where g.host_id = b.host_id and g.queue = b.queue and (b.priority is not null or g.version <> b.version);

-- name: dead_rows
-- How many replaced versions of rows wait to be removed, as far as is known.
select pg_stat_get_dead_tuples('crawl_state'::regclass);

-- name: first_free
-- The first free job of each queue and priority. Where there is none, an id as of two seconds ago: ids grow with time, and whoever
-- makes jobs may not have committed yet.
select q.queue, p.priority, coalesce(
  (select a.job_id from crawl_state a
   where a.place = 'free' and a.queue = q.queue and a.priority = p.priority
   order by a.job_id limit 1),
  (lpad(to_hex((extract(epoch from now()) * 1000)::bigint - 2000), 12, '0') || repeat('0', 20))::uuid) as job_id
from generate_series(100, 0, -1) p(priority) cross join unnest(:queues::text[]) q(queue);

-- name: locks_of_bots
-- The jobs that some bots have locked.
select j.locked_by as bot_id, j.job_id from crawl_state j where j.locked_by = any(:bot_ids::text[]) and j.place = 'locked';

-- name: locks_among
-- Those of these jobs that are locked, and by whom; found by their ids alone.
select j.locked_by as bot_id, j.job_id from unnest(:job_ids::uuid[]) i(job_id)
cross join lateral (select s.job_id, s.locked_by, s.place from crawl_state s where s.job_id = i.job_id offset 0) j
where j.place = 'locked';

-- name: held_elsewhere
-- For `skipped`: locked jobs that match, by holder, and jobs behind closed gates; counted up to a bound.
select held.locked_by as bot_id, count(*)::int as jobs from (
  select j.locked_by from crawl_state j
  where j.place = 'locked' and j.queue::"char" = any(:queues::text[]::"char"[]) and j.queue = any(:queues::text[])
    and (:host_ids::int[] is null or j.host_id = any(:host_ids::int[]))
  limit :most::int) held
group by 1
union all
select null, count(*)::int from (
  select 1 from gate g
  cross join lateral (
    select 1 from crawl_state j
    where j.host_id = g.host_id and j.queue::"char" = g.queue::"char" and j.queue = g.queue and j.place = 'gated' limit 100) j
  where g.queue = any(:queues::text[]) and g.open_at > coalesce(:now::timestamptz, now())
    and (:host_ids::int[] is null or g.host_id = any(:host_ids::int[]))
  limit 100) waiting
having count(*) > 0;

-- name: held_by_others
-- The same for one bot whose own locks crowded out the others; a look at so many locks must do.
select count(*)::int from (
  select 1 from (
    select j.locked_by from crawl_state j
    where j.place = 'locked' and j.queue::"char" = any(:queues::text[]::"char"[]) and j.queue = any(:queues::text[])
      and (:host_ids::int[] is null or j.host_id = any(:host_ids::int[]))
    limit 2000) held
  where held.locked_by <> :bot_id::text
  limit 100) others;

-- name: domain_hosts
-- Every host of a domain, waiting jobs or not.
select h.host_id from host h
where h.name = :domain::text
   or (h.name_reversed ~>=~ reverse('.' || :domain::text) and h.name_reversed ~<~ reverse('/' || :domain::text))
limit 1000;

-- name: next_chance
-- When an empty-handed bot should ask again: the next retry, gate or due policy.
select extract(epoch from least(
  (select min(j.run_at) from crawl_state j where j.place = 'later' and j.run_at < 'infinity'),
  (select min(g.open_at) from generate_series(case when exists (select 1 from gate) then 100 else -1 end, 0, -1) p(priority)
   cross join unnest(:queues::text[]) q(queue)
   cross join lateral (
     select g.open_at from gate g where g.queue = q.queue and g.top_priority = p.priority order by g.open_at limit 1) g),
  (select min(d.next_run_at) from crawl_state d where d.place = 'due' and d.due_pool is null),
  (select min(greatest(d.next_run_at, b.tokens_at + make_interval(secs => 86400 / b.budget_per_day)))  -- when its budget has one
   from crawl_pool b cross join lateral (
     select x.next_run_at from crawl_state x where x.place = 'due' and x.due_pool = b.pool order by x.next_run_at limit 1) d
   where b.budget_per_day > 0)) - coalesce(:now::timestamptz, now()))::float8;
