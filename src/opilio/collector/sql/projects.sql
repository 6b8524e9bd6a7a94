-- name: insert_project
-- Inserts a project; returns nothing when its id exists.
insert into project (project_id, brand_name, brand_keywords, competitor_keywords, platforms, limit_per_keyword, time_range,
                     webhook_url, time_zone, tasks_total, definition, snapshot, trace_id, created_at, created_by)
values (:project_id, :brand_name, :brand_keywords, :competitor_keywords, :platforms, :limit_per_keyword, :time_range,
        :webhook_url, :time_zone, :tasks_total, :definition, :snapshot, :trace_id, now(), :created_by)
on conflict (project_id) do nothing
returning project_id;

-- name: project_definition
select definition from project where project_id = :project_id;

-- name: insert_tasks
-- Records tasks before they are sent; existing tasks are not changed.
with recorded as (
  insert into task (platform, job_id, project_id, task_type, body, attempt, max_attempts, trace_id, created_at, send_at, ready_at)
  select t.platform, t.job_id, :project_id, t.task_type, t.body::json, t.attempt, t.max_attempts, :trace_id, now(), now(), now()
  from unnest(:platforms::text[], :job_ids::text[], :task_types::text[], :bodies::text[], :attempts::int[],
              :max_attempts::int[]) t(platform, job_id, task_type, body, attempt, max_attempts)
  on conflict (job_id, platform) do nothing
  returning 1
)
select (select count(*) from recorded)::int as tasks, count(pg_notify('opilio_tasks', '')) from (select 1 from recorded limit 1) woken;

-- name: lock_sending
-- One process sends at a time, so that the limit of tasks in flight holds.
select pg_try_advisory_xact_lock(hashtext('opilio.collector.send_tasks'));

-- name: claim_tasks
-- Unsent tasks, of each platform no more than may be in flight beside those that are.
select c.* from unnest(:platforms::text[]) p(platform)
cross join lateral (
  select t.platform, t.job_id, t.project_id, t.body::text as body, t.attempt, t.trace_id, t.send_at, t.created_at,
         greatest(extract(epoch from t.ready_at - now()), 0)::double precision as wait
  from task t
  where t.state = 'open' and t.sent_at is null and t.send_at <= now() and t.platform = p.platform
  order by t.send_at, t.created_at, t.job_id
  limit least(:most, greatest(0, :in_flight - (
    select count(*) from task o where o.platform = p.platform and o.state = 'open' and o.sent_at is not null)))
  for update of t skip locked) c;

-- name: mark_sent
-- The bus has confirmed these tasks. Their time-out starts when they have left their queue.
update task t set sent_at = now(), deadline = null
from unnest(:platforms::text[], :job_ids::text[]) s(platform, job_id)
where t.platform = s.platform and t.job_id = s.job_id;

-- name: sent_platforms
-- Platforms with sent tasks whose time-out has not started, and when the last of them was in its queue.
select platform, max(greatest(sent_at, ready_at)) as last_sent, now() as at
from task where state = 'open' and sent_at is not null and deadline is null and ready_at <= now() group by platform;

-- name: start_deadlines
-- These tasks have left their queue: it was empty, or a task that was queued behind them was answered.
with answered as (
  select greatest(t.sent_at, t.ready_at) as at, t.send_at, t.created_at, t.job_id from task t
  where t.platform = :platform and t.state <> 'open' and t.finished_at > now() - interval '1 day'
    and t.sent_at is not null and t.error_code is distinct from 'TIMEOUT'
  order by 1 desc, 2 desc, 3 desc, 4 desc limit 1)
update task t set deadline = now() + make_interval(secs => :timeout)
where t.platform = :platform and t.state = 'open' and t.sent_at is not null and t.deadline is null
  and (greatest(t.sent_at, t.ready_at) <= :empty_at::timestamptz
       or exists (select from answered a where (greatest(t.sent_at, t.ready_at), t.send_at, t.created_at, t.job_id)
                                             < (a.at, a.send_at, a.created_at, a.job_id)));

-- name: start_task
-- The crawler says that it has begun.
update task t set deadline = now() + make_interval(secs => :timeout)
from unnest(:platforms::text[], :job_ids::text[]) s(platform, job_id)
where t.platform = s.platform and t.job_id = s.job_id and t.state = 'open' and t.sent_at is not null and t.deadline is null;

-- name: postpone_tasks
-- Tasks without a queue are tried again later, so that they do not block others.
update task t set send_at = now() + make_interval(secs => :seconds)
from unnest(:platforms::text[], :job_ids::text[]) s(platform, job_id)
where t.platform = s.platform and t.job_id = s.job_id;

-- name: overdue_tasks
-- Tasks past their deadline. The deadline is moved, so that each is reported once per time-out.
with late as (
  select t.platform, t.job_id from task t
  where t.state = 'open' and t.sent_at is not null and t.deadline <= now()
  order by t.deadline limit :most
  for update skip locked
)
update task t set deadline = now() + make_interval(secs => :timeout)
from late l where t.platform = l.platform and t.job_id = l.job_id
returning t.platform, t.job_id, t.task_type, t.attempt, t.trace_id;

-- name: projects_of_tasks
select distinct t.project_id
from unnest(:job_ids::text[], :platforms::text[]) k(job_id, platform)
join task t on t.job_id = k.job_id and t.platform = k.platform
where t.project_id is not null;

-- name: lock_tasks
-- Locks the tasks of some results in the order of their keys, so that two collectors never deadlock.
select t.platform, t.job_id, t.project_id, t.state, t.attempt, t.max_attempts, t.ready_at, t.items_attempt, t.crawl_id,
       t.error_code, t.error_message, t.successful, t.failed, t.skipped, t.body ->> 'emitted_at' as emitted_at
from unnest(:job_ids::text[], :platforms::text[]) k(job_id, platform)
join task t on t.job_id = k.job_id and t.platform = k.platform
order by t.job_id, t.platform
for no key update of t;

-- name: results_of_tasks
select r.job_id, r.platform, r.attempt, r.cursor, r.success, r.usable, r.successful, r.failed, r.skipped, r.counted, r.digests
from unnest(:job_ids::text[], :platforms::text[]) k(job_id, platform)
join task_result r on r.job_id = k.job_id and r.platform = k.platform;

-- name: store_results
-- Inserts or replaces received results.
insert into task_result (job_id, platform, attempt, cursor, success, usable, successful, failed, skipped, counted, digests,
                         received_at)
select r.job_id, r.platform, r.attempt, r.cursor, r.success, r.usable, r.successful, r.failed, r.skipped, r.counted, r.digests,
       now()
from jsonb_to_recordset(:results) as r(job_id text, platform text, attempt smallint, cursor text, success boolean,
  usable boolean, successful int, failed int, skipped int, counted boolean, digests text[])
on conflict (job_id, platform, attempt, cursor) do update set
  success = excluded.success, usable = excluded.usable, successful = excluded.successful, failed = excluded.failed,
  skipped = excluded.skipped, counted = excluded.counted, digests = excluded.digests, received_at = excluded.received_at;

-- name: update_tasks
-- Stores decisions. A retry becomes unsent again; senders are notified, because a finished task makes room.
with changed as (
  update task t set
    state = m.state, attempt = m.attempt, ready_at = m.ready_at, items_attempt = m.items_attempt, crawl_id = m.crawl_id,
    error_code = m.error_code, error_message = m.error_message,
    sent_at = case when m.retried then null else t.sent_at end,
    send_at = case when m.retried then now() else t.send_at end,
    deadline = case when m.retried then null else t.deadline end,
    finished_at = case when m.state = 'open' then null else coalesce(t.finished_at, now()) end,
    successful = m.successful, failed = m.failed, skipped = m.skipped,
    total_found = coalesce(m.total_found, t.total_found), platform_limited = t.platform_limited or m.platform_limited
  from unnest(:platforms::text[], :job_ids::text[], :states::text[], :attempts::int[], :ready_at::timestamptz[],
              :items_attempts::int[], :crawl_ids::text[], :error_codes::text[], :error_messages::text[],
              :retried::boolean[], :successful::int[], :failed::int[], :skipped::int[],
              :total_found::int[], :platform_limited::boolean[])
    m(platform, job_id, state, attempt, ready_at, items_attempt, crawl_id, error_code, error_message,
      retried, successful, failed, skipped, total_found, platform_limited)
  where t.platform = m.platform and t.job_id = m.job_id
  returning 1
)
select count(*)::int as changed from changed;

-- name: notify_senders
select pg_notify('opilio_tasks', '');

-- name: add_warnings
-- Stores a warning about a task, each kind once.
insert into project_warning (project_id, platform, job_id, kind, message, at)
select w.project_id, w.platform, w.job_id, w.kind, w.message, now()
from unnest(:project_ids::text[], :platforms::text[], :job_ids::text[], :kinds::text[], :messages::text[])
  w(project_id, platform, job_id, kind, message)
where exists (select 1 from project p where p.project_id = w.project_id)
on conflict do nothing;

-- name: store_snapshots
-- The reported state of projects; an older version changes nothing.
update project p set
  status = c.status, snapshot = c.snapshot::jsonb, snapshot_version = c.version,
  finished_at = case when c.status = 'DONE' then coalesce(p.finished_at, now()) end
from unnest(:project_ids::text[], :versions::bigint[], :statuses::text[], :snapshots::text[])
  c(project_id, version, status, snapshot)
where p.project_id = c.project_id and p.snapshot_version < c.version;

-- name: project_webhooks
-- The webhook URLs of these projects, and when they were done.
select project_id, webhook_url, trace_id, finished_at, now() as at from project where project_id = any(:project_ids::text[]);

-- name: lock_reporting
-- One process reports at a time; the others would report the same.
select pg_try_advisory_xact_lock(hashtext('opilio.collector.progress_reports'));

-- name: finished_projects
-- Projects that finished so long ago that no result is expected.
select project_id from project
where finished_at < now() - make_interval(secs => :age) and not forgotten
order by finished_at limit :most
for update skip locked;

-- name: drop_results
delete from task_result r using task t
where t.project_id = any(:project_ids::text[]) and r.job_id = t.job_id and r.platform = t.platform;

-- name: drop_batches
delete from batch_result where project_id = any(:project_ids::text[]);

-- name: mark_results_dropped
update project set forgotten = true where project_id = any(:project_ids::text[]);
