-- name: add_hosts
-- Hosts seen for the first time.
insert into host (name) select distinct n from unnest(:names::text[]) n where not exists (select 1 from host h where h.name = n)
order by 1 on conflict (name) do nothing;

-- name: known_urls
-- Which of these URLs have a policy.
select p.url from policy p where p.url = any(:urls::text[]) and p.deleted_at is null;

-- name: save_policies
-- Creates policies whose URL is new and, where asked, changes the others; null means "not said".
with input as materialized (
  select * from json_to_recordset(:policies::json) as r(
    row int, url text, host text, job_queue text, enabled boolean, frequency_hours float8, priority int, max_retries int,
    retry_backoff_minutes float8, timeout_minutes float8, queue text, crawl_config jsonb, rule_set jsonb, hot boolean, labels jsonb,
    next_run_at timestamptz, schedule text, min_interval_hours float8, max_interval_hours float8)),
created as (
  insert into policy (url, host_id, frequency_hours, priority, max_retries, retry_backoff_minutes, timeout_minutes, queue,
    job_queue, crawl_config, rule_set, hot, labels, schedule, min_interval_hours, max_interval_hours)
  select i.url, h.host_id, coalesce(i.frequency_hours, 24), coalesce(i.priority, 50), coalesce(i.max_retries, 3),
    coalesce(i.retry_backoff_minutes, 5), coalesce(i.timeout_minutes, 10), i.queue, coalesce(i.job_queue, 'http'),
    coalesce(i.crawl_config, '{}'), coalesce(i.rule_set, '{}'), coalesce(i.hot, false), coalesce(i.labels, '{}'),
    coalesce(i.schedule, 'fixed'), i.min_interval_hours, i.max_interval_hours
  from input i join host h on h.name = i.host
  order by i.row  -- ids, and locks of imports at the same time, in the order of the file
  on conflict (url) where deleted_at is null do nothing
  returning policy_id, url),
begun as (  -- due in no pool: a first visit does not wait for a budget
  insert into crawl_state (policy_id, enabled, next_run_at, place)
  select c.policy_id, coalesce(i.enabled, true), coalesce(i.next_run_at, :now::timestamptz, now()),
    case when coalesce(i.enabled, true) then 'due' end
  from created c join input i on i.url = c.url),
known as materialized (  -- those before this statement; not looked for where all are new, as an import may find no statistics yet
  select i.row, p.policy_id from input i join policy p on p.url = i.url and p.deleted_at is null
  where (select count(*) from created) < (select count(*) from input)),
changed as (
  update policy p set
    frequency_hours = coalesce(i.frequency_hours, p.frequency_hours), priority = coalesce(i.priority, p.priority),
    max_retries = coalesce(i.max_retries, p.max_retries), retry_backoff_minutes = coalesce(i.retry_backoff_minutes, p.retry_backoff_minutes),
    timeout_minutes = coalesce(i.timeout_minutes, p.timeout_minutes), queue = coalesce(i.queue, p.queue),
    job_queue = coalesce(i.queue, case when i.crawl_config is null then p.job_queue else coalesce(p.queue, i.job_queue) end),
    crawl_config = coalesce(i.crawl_config, p.crawl_config), rule_set = coalesce(i.rule_set, p.rule_set),
    hot = coalesce(i.hot, p.hot), labels = coalesce(i.labels, p.labels), schedule = coalesce(i.schedule, p.schedule),
    min_interval_hours = coalesce(i.min_interval_hours, p.min_interval_hours),
    max_interval_hours = coalesce(i.max_interval_hours, p.max_interval_hours), updated_at = now()
  from known k join input i on i.row = k.row
  where p.policy_id = k.policy_id and :update::boolean
  returning p.policy_id)
select i.row, c.policy_id, 'created' as status from created c join input i on i.url = c.url
union all
select k.row, k.policy_id, case when :update::boolean then 'updated' else 'exists' end from known k;

-- name: set_schedules
-- Switches policies on or off and moves their next run, where said. A policy that is switched off keeps its
-- waiting job, which nobody gets until it is switched on again.
update crawl_state s set
  enabled = coalesce(i.enabled, s.enabled), next_run_at = coalesce(i.next_run_at, s.next_run_at),
  due_pool = case when s.last_success_at is not null then p.pool end, early_at = null,
  place = case
    when s.job_id is null then case when coalesce(i.enabled, s.enabled) then 'due' end
    when s.place <> 'locked' and coalesce(i.enabled, s.enabled) = (s.run_at = 'infinity') then 'later'
    else s.place end,
  run_at = case
    when s.job_id is not null and s.place <> 'locked' and coalesce(i.enabled, s.enabled) = (s.run_at = 'infinity')
      then case when coalesce(i.enabled, s.enabled) then least(s.run_at, coalesce(:now::timestamptz, now())) else 'infinity' end
    else s.run_at end
from unnest(:policy_ids::uuid[], :enabled::boolean[], :next_runs::timestamptz[]) i(policy_id, enabled, next_run_at)
join policy p on p.policy_id = i.policy_id
where s.policy_id = i.policy_id;

-- name: change_policy
-- Rewrites the fields of one policy.
update policy p set
  url = i.url, host_id = h.host_id, frequency_hours = i.frequency, priority = i.priority, max_retries = i.max_retries,
  retry_backoff_minutes = i.backoff, timeout_minutes = i.timeout, queue = i.queue, job_queue = i.job_queue,
  crawl_config = i.crawl_config, rule_set = i.rule_set, hot = i.hot, labels = i.labels, schedule = i.schedule,
  min_interval_hours = i.min_interval, max_interval_hours = i.max_interval, updated_at = now()
from (select :url::text as url, :host::text as host, :frequency::float8 as frequency, :priority::int as priority,
             :max_retries::int as max_retries, :backoff::float8 as backoff, :timeout::float8 as timeout, :queue::text as queue,
             :job_queue::text as job_queue, :crawl_config::jsonb as crawl_config, :rule_set::jsonb as rule_set,
             :hot::boolean as hot, :labels::jsonb as labels, :schedule::text as schedule,
             :min_interval::float8 as min_interval, :max_interval::float8 as max_interval) i
join host h on h.name = i.host
where p.policy_id = :policy_id::uuid and p.deleted_at is null;

-- name: move_jobs
-- The waiting jobs of changed policies follow them to their new host or queue; ready_jobs readies them there.
update crawl_state j set host_id = p.host_id, queue = p.job_queue, place = 'later'
from policy p
where p.policy_id = any(:policy_ids::uuid[]) and j.policy_id = p.policy_id and j.place in ('free', 'gated', 'later')
  and (j.host_id, j.queue) is distinct from (p.host_id, p.job_queue);

-- name: take_policy
-- One policy as the user set it, locked for a change. Its host is not joined: whoever had it before may have moved it to another.
select p.*, (select h.name from host h where h.host_id = p.host_id) as host, s.enabled, s.next_run_at
from policy p join crawl_state s on s.policy_id = p.policy_id
where p.policy_id = :policy_id::uuid and p.deleted_at is null
for update of p;

-- name: delete_policies
-- Takes policies out of use. A waiting job goes with them; a running one may still end.
with gone as (
  update policy p set deleted_at = coalesce(:now::timestamptz, now())
  where p.policy_id = any(:policy_ids::uuid[]) and p.deleted_at is null returning p.policy_id),
off as (
  update crawl_state s set enabled = false, place = case when s.place = 'locked' then s.place end,
    job_id = case when s.place = 'locked' then s.job_id end
  from gone g where s.policy_id = g.policy_id)
select policy_id from gone;
