-- name: batches_of_tasks
-- The recorded batches of some tasks, and of some batch names, oldest first.
select b.project_id, b.platform, b.job_id, b.crawl_id, b.copy, b.task_job_id, b.success_count, b.error_count,
       b.fetch_error_count, b.size_known, b.counted, b.digests
from batch_result b
join (select distinct project_id, platform, task_job_id
      from unnest(:project_ids::text[], :platforms::text[], :task_job_ids::text[]) k(project_id, platform, task_job_id)) k
  on (b.project_id, b.platform, b.task_job_id) = (k.project_id, k.platform, k.task_job_id)
order by b.received_at, b.copy;

-- name: store_batches
-- Inserts or replaces recorded batches.
insert into batch_result (project_id, platform, job_id, crawl_id, copy, task_job_id, success_count, error_count,
                          fetch_error_count, size_known, counted, digests, received_at)
select r.project_id, r.platform, r.job_id, r.crawl_id, r.copy, r.task_job_id, r.success_count, r.error_count,
       r.fetch_error_count, r.size_known, r.counted, r.digests, now()
from jsonb_to_recordset(:batches) as r(project_id text, platform text, job_id text, crawl_id text, copy smallint,
  task_job_id text, success_count int, error_count int, fetch_error_count int, size_known boolean, counted boolean, digests text[])
on conflict (project_id, platform, job_id, crawl_id, copy) do update set
  success_count = excluded.success_count, error_count = excluded.error_count,
  fetch_error_count = excluded.fetch_error_count, size_known = excluded.size_known, counted = excluded.counted,
  digests = excluded.digests;

-- name: quiet_projects
-- Projects whose crawl is complete and whose analysis has not changed for some seconds.
select project_id from project_state
where status = 'PROCESSING' and tasks_done + tasks_errors >= tasks_total and changed_at < now() - make_interval(secs => :seconds)
  and exists (select from batch_result b where b.project_id = project_state.project_id
              and (not b.size_known or (b.platform = '' and not b.counted)))
order by project_id limit :most;

-- name: missing_analysis
-- The jobs of a project with items that were not analysed yet.
select t.job_id, t.platforms, t.keyword, t.items - coalesce(b.items, 0) as missing
from (select job_id, array_agg(platform order by platform) as platforms, min(body -> 'keywords' ->> 0) as keyword,
             sum(successful)::bigint as items
      from task where project_id = :project_id and state <> 'open' group by job_id) t
left join (select task_job_id, sum(success_count + error_count)::bigint as items
           from batch_result where project_id = :project_id and counted group by task_job_id) b on b.task_job_id = t.job_id
where t.items > coalesce(b.items, 0)
order by t.job_id limit :most;

-- name: undecided_batches
-- Batches that do not count yet: copies without a platform, and unreadable ones of unknown size.
select b.project_id, b.platform, b.job_id, b.crawl_id, b.copy, b.task_job_id, b.success_count, b.error_count,
       b.fetch_error_count, b.size_known, b.counted, b.digests
from batch_result b
where b.project_id = :project_id and (not b.size_known or (b.platform = '' and not b.counted))
order by b.received_at;

-- name: mark_stalled
-- Projects whose analysis stands still for too long and that were not reported as stalled yet.
update project_state s set stalled_at = now()
where s.project_id in (
  select q.project_id from project_state q
  where q.status = 'PROCESSING' and q.stalled_at is null and q.tasks_done + q.tasks_errors >= q.tasks_total
    and q.changed_at < now() - make_interval(secs => :seconds)
  order by q.project_id limit :most for no key update skip locked)
returning s.project_id, s.analyze_total, s.analyze_done, s.analyze_errors, s.changed_at;

-- name: raise_stalled
-- The event of a stalled project.
insert into event (type, subject, data, occurred_at) values (:type, :project_id, :data, now());

-- name: changed_at
select changed_at from project_state where project_id = :project_id;
