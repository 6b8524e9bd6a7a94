-- name: insert_project
-- A new project; nothing when its id is taken.
insert into project (project_id, brand_name, brand_keywords, competitor_keywords, platforms, limit_per_keyword, time_range,
                     webhook_url, tasks_total, definition, snapshot, created_at, created_by)
values (:project_id, :brand_name, :brand_keywords, :competitor_keywords, :platforms, :limit_per_keyword, :time_range,
        :webhook_url, :tasks_total, :definition, :snapshot, now(), :created_by)
on conflict (project_id) do nothing
returning project_id;

-- name: project_definition
select definition from project where project_id = :project_id;

-- name: insert_tasks
-- Records tasks before they go out; a task that is there already stays as it is.
with recorded as (
  insert into task (platform, job_id, project_id, task_type, body, attempt, max_attempts, created_at, send_at, ready_at)
  select t.platform, t.job_id, :project_id, t.task_type, t.body::json, t.attempt, t.max_attempts, now(), now(), now()
  from unnest(:platforms::text[], :job_ids::text[], :task_types::text[], :bodies::text[], :attempts::int[],
              :max_attempts::int[]) t(platform, job_id, task_type, body, attempt, max_attempts)
  on conflict (job_id, platform) do nothing
  returning 1
)
select (select count(*) from recorded)::int as tasks, count(pg_notify('opilio_tasks', '')) from (select 1 from recorded limit 1) woken;

-- name: unopened_projects
-- Projects whose state was not made yet: whoever recorded them is about to, or died.
select project_id, tasks_total, tasks_total::bigint * limit_per_keyword as items_expected
from project where opened_at is null
order by created_at limit :most
for update skip locked;

-- name: mark_opened
update project set opened_at = now() where project_id = any(:project_ids::text[]) and opened_at is null;

-- name: claim_tasks
-- Tasks that have to go out and that no other sender holds, those of a project only once its state exists.
select t.platform, t.job_id, t.project_id, t.body::text as body, t.attempt,
       greatest(extract(epoch from t.ready_at - now()), 0)::double precision as wait
from task t
where t.state = 'open' and t.sent_at is null and t.send_at <= now() and t.platform = any(:platforms::text[])
  and (t.project_id is null or exists (select 1 from project p where p.project_id = t.project_id and p.opened_at is not null))
order by t.send_at
limit :most
for update of t skip locked;

-- name: mark_sent
-- The bus has them: from now on the crawler's time runs.
update task t set sent_at = now(), deadline = greatest(now(), t.ready_at) + make_interval(secs => :timeout)
from unnest(:platforms::text[], :job_ids::text[]) s(platform, job_id)
where t.platform = s.platform and t.job_id = s.job_id;

-- name: put_off
-- No queue took them: they are tried again later, and do not stand in the way of others.
update task t set send_at = now() + make_interval(secs => :seconds)
from unnest(:platforms::text[], :job_ids::text[]) s(platform, job_id)
where t.platform = s.platform and t.job_id = s.job_id;

-- name: overdue_tasks
-- Tasks whose crawler has been silent for too long. The deadline moves on, so that each is reported once a time-out.
with late as (
  select t.platform, t.job_id from task t
  where t.state = 'open' and t.sent_at is not null and t.deadline <= now()
  order by t.deadline limit :most
  for update skip locked
)
update task t set deadline = now() + make_interval(secs => :timeout)
from late l where t.platform = l.platform and t.job_id = l.job_id
returning t.platform, t.job_id, t.task_type, t.attempt;

-- name: lock_tasks
-- The tasks that results speak of, in the order of their keys, so that two collectors never wait crosswise.
select t.platform, t.job_id, t.project_id, t.state, t.attempt, t.max_attempts, t.ready_at, t.settled_by, t.items_attempt,
       t.retried_for, t.error_code, t.error_message
from unnest(:job_ids::text[], :platforms::text[]) k(job_id, platform)
join task t on t.job_id = k.job_id and t.platform = k.platform
order by t.job_id, t.platform
for no key update of t;

-- name: move_tasks
-- What the results decided. A retry becomes unsent again; whoever sends is woken.
with moved as (
  update task t set
    state = m.state, attempt = m.attempt, ready_at = m.ready_at, settled_by = m.settled_by, items_attempt = m.items_attempt,
    retried_for = m.retried_for, error_code = m.error_code, error_message = m.error_message,
    sent_at = case when m.retried then null else t.sent_at end,
    send_at = case when m.retried then now() else t.send_at end,
    deadline = case when m.retried then null else t.deadline end,
    finished_at = case when m.state = 'open' then null else coalesce(t.finished_at, now()) end,
    successful = m.successful, failed = m.failed, skipped = m.skipped,
    total_found = coalesce(m.total_found, t.total_found), platform_limited = t.platform_limited or m.platform_limited
  from unnest(:platforms::text[], :job_ids::text[], :states::text[], :attempts::int[], :ready_at::timestamptz[],
              :settled_by::text[], :items_attempts::int[], :retried_for::text[], :error_codes::text[],
              :error_messages::text[], :retried::boolean[], :successful::int[], :failed::int[], :skipped::int[],
              :total_found::int[], :platform_limited::boolean[])
    m(platform, job_id, state, attempt, ready_at, settled_by, items_attempt, retried_for, error_code, error_message,
      retried, successful, failed, skipped, total_found, platform_limited)
  where t.platform = m.platform and t.job_id = m.job_id
  returning m.retried
)
select count(*)::int as moved, count(pg_notify('opilio_tasks', '')) filter (where retried) from moved;

-- name: add_pages
-- Further pages of settled tasks, once the state has counted them.
update task t set successful = t.successful + a.successful, failed = t.failed + a.failed, skipped = t.skipped + a.skipped,
  items_attempt = a.attempt
from (select platform, job_id, max(attempt) as attempt, sum(successful) as successful, sum(failed) as failed, sum(skipped) as skipped
      from unnest(:platforms::text[], :job_ids::text[], :attempts::int[], :successful::int[], :failed::int[], :skipped::int[])
        p(platform, job_id, attempt, successful, failed, skipped)
      group by platform, job_id) a
where t.platform = a.platform and t.job_id = a.job_id;

-- name: warn
-- Something that a person should know about a task; said once.
insert into project_warning (project_id, platform, job_id, kind, message, at)
select w.project_id, w.platform, w.job_id, w.kind, w.message, now()
from unnest(:project_ids::text[], :platforms::text[], :job_ids::text[], :kinds::text[], :messages::text[])
  w(project_id, platform, job_id, kind, message)
where exists (select 1 from project p where p.project_id = w.project_id)
on conflict do nothing;

-- name: keep_snapshots
-- What is told of projects, beside what is told to their webhooks; a state that was overtaken changes nothing.
update project p set
  status = c.status, snapshot = c.snapshot::jsonb, snapshot_version = c.version,
  finished_at = case when c.status = 'DONE' then coalesce(p.finished_at, now()) end
from unnest(:project_ids::text[], :versions::bigint[], :statuses::text[], :snapshots::text[])
  c(project_id, version, status, snapshot)
where p.project_id = c.project_id and p.snapshot_version < c.version;

-- name: projects_to_tell
-- Where the progress of these projects goes, and when they were done.
select project_id, webhook_url, finished_at, now() as at from project where project_id = any(:project_ids::text[]);

-- name: only_one_tells
-- One process tells at a time; the others would say the same.
select pg_try_advisory_xact_lock(hashtext('opilio.collector.progress_reports'));

-- name: finished_projects
-- Projects done for so long that nothing of theirs can still be under way.
select project_id from project
where finished_at < now() - make_interval(secs => :age) and not forgotten
order by finished_at limit :most
for update skip locked;

-- name: mark_forgotten
update project set forgotten = true where project_id = any(:project_ids::text[]);
