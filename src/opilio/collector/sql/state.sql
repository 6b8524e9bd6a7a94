-- name: create_state
-- Creates the counters of a project.
insert into project_state (project_id, status, tasks_total, items_expected, crawl_total)
values (:project_id, 'PENDING', :tasks_total, :items_expected, :tasks_total);

-- name: lock_states
-- Locks counters in the order of their ids, so that two collectors never deadlock.
select s.project_id, s.status, cardinality(p.platforms) as platforms
from project_state s join project p using (project_id)
where s.project_id = any(:project_ids::text[]) order by s.project_id for no key update of s;

-- name: add_to_states
-- Adds differences to the counters and decides the status; DONE is final. The rows are locked by lock_states.
update project_state s set
  tasks_done = s.tasks_done + d.tasks_done, tasks_errors = s.tasks_errors + d.tasks_errors,
  items_actual = s.items_actual + d.items_actual, items_errors = s.items_errors + d.items_errors,
  analyze_total = s.analyze_total + d.analyze_total, analyze_done = s.analyze_done + d.analyze_done,
  analyze_errors = s.analyze_errors + d.analyze_errors,
  version = s.version + 1, changed_at = now(), stalled_at = null,
  status = case
    when s.status = 'DONE' then 'DONE'
    when (case when s.tasks_total = 0
               then s.items_actual + d.items_actual + s.items_errors + d.items_errors >= s.crawl_total
               else s.tasks_done + d.tasks_done + s.tasks_errors + d.tasks_errors >= s.tasks_total end)
     and (s.analyze_total + d.analyze_total = 0
          or s.analyze_done + d.analyze_done + s.analyze_errors + d.analyze_errors >= s.analyze_total + d.analyze_total)
      then 'DONE'
    else 'PROCESSING' end
from unnest(:project_ids::text[], :tasks_done::bigint[], :tasks_errors::bigint[], :items_actual::bigint[],
            :items_errors::bigint[], :analyze_total::bigint[], :analyze_done::bigint[], :analyze_errors::bigint[])
  d(project_id, tasks_done, tasks_errors, items_actual, items_errors, analyze_total, analyze_done, analyze_errors)
where s.project_id = d.project_id
returning s.project_id, s.version, s.status, s.tasks_total, s.tasks_done, s.tasks_errors, s.items_expected, s.items_actual,
          s.items_errors, s.analyze_total, s.analyze_done, s.analyze_errors, s.crawl_total, s.crawl_done, s.crawl_errors;

-- name: mark_processing
-- The first task of a project was sent.
update project_state set status = 'PROCESSING', version = version + 1, changed_at = now()
where project_id = any(:project_ids::text[]) and status = 'PENDING'
returning project_id, version, status, tasks_total, tasks_done, tasks_errors, items_expected, items_actual, items_errors,
          analyze_total, analyze_done, analyze_errors, crawl_total, crawl_done, crawl_errors;

-- name: read_states
select project_id, version, status, tasks_total, tasks_done, tasks_errors, items_expected, items_actual, items_errors,
       analyze_total, analyze_done, analyze_errors, crawl_total, crawl_done, crawl_errors
from project_state where project_id = any(:project_ids::text[]);

-- name: unreported_states
-- Projects whose newest state was not reported yet.
select project_id, version, status, tasks_total, tasks_done, tasks_errors, items_expected, items_actual, items_errors,
       analyze_total, analyze_done, analyze_errors, crawl_total, crawl_done, crawl_errors
from project_state where version > reported_version limit :most;

-- name: mark_reported
update project_state s set reported_version = r.version
from unnest(:project_ids::text[], :versions::bigint[]) r(project_id, version)
where s.project_id = r.project_id and s.reported_version < r.version;

-- name: recent_versions
-- The versions of projects that a cache should know, a page in the order of their ids.
select project_id, version from project_state
where project_id > :after and (status <> 'DONE' or changed_at > now() - make_interval(secs => :seconds))
order by project_id limit :most;

-- name: recounted
-- What the recorded tasks and batches add up to, beside what the counters say; finished projects of old have no rows left.
select s.project_id, s.status, s.tasks_done, s.tasks_errors, s.items_actual, s.items_errors, s.analyze_total, s.analyze_done,
       s.analyze_errors, t.*, b.*
from project_state s
join project p using (project_id)
cross join lateral (
  select count(*) filter (where state = 'done') as true_tasks_done,
         count(*) filter (where state = 'failed') as true_tasks_errors,
         coalesce(sum(successful) filter (where state <> 'open'), 0)::bigint as true_items_actual,
         coalesce(sum(failed) filter (where state <> 'open'), 0)::bigint as true_items_errors
  from task where task.project_id = s.project_id) t
cross join lateral (
  select coalesce(sum(success_count) filter (where counted), 0)::bigint as true_analyze_done,
         coalesce(sum(error_count) filter (where counted), 0)::bigint as true_analyze_errors
  from batch_result where batch_result.project_id = s.project_id) b
where s.project_id = any(:project_ids::text[]) and not p.forgotten
order by s.project_id;

-- name: unfinished_projects
-- Projects that are not done, a page in the order of their ids.
select project_id from project_state where status <> 'DONE' and project_id > :after order by project_id limit :most;
