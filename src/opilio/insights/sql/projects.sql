-- name: projects
-- Projects, newest first.
select p.project_id, p.brand_name, p.brand_keywords, p.competitor_keywords, p.platforms, p.limit_per_keyword, p.time_range,
       p.webhook_url, p.time_zone, p.created_at, p.created_by, p.finished_at, p.status, p.snapshot, now() as at
from project p
where (:before::text is null
       or (p.created_at, p.project_id) < (select b.created_at, b.project_id from project b where b.project_id = :before::text))
  and (:status::text is null or p.status = :status::text)
  and (:q::text is null or position(lower(:q::text) in lower(p.project_id || ' ' || coalesce(p.brand_name, ''))) > 0)
order by p.created_at desc, p.project_id desc
limit :most::int;

-- name: one_project
select p.project_id, p.brand_name, p.brand_keywords, p.competitor_keywords, p.platforms, p.limit_per_keyword, p.time_range,
       p.webhook_url, p.time_zone, p.created_at, p.created_by, p.finished_at, p.status, p.snapshot, now() as at
from project p where p.project_id = :project_id;

-- name: project_warnings
select w.platform, w.job_id, w.kind, w.message, w.at from project_warning w
where w.project_id = :project_id order by w.at, w.platform, w.job_id, w.kind limit :most::int;

-- name: project_tasks
-- The tasks of a project in the order of their dispatch.
select * from (
  select t.job_id, t.platform, t.task_type, t.body -> 'keywords' ->> 0 as keyword, (t.body ->> 'limit')::int as "limit",
         case when t.state <> 'open' then t.state
              when t.attempt > (t.body ->> 'attempt')::int and (t.sent_at is null or t.ready_at > now()) then 'retrying'
              when t.sent_at is null then 'waiting'
              else 'sent' end as status,
         t.attempt, t.max_attempts, t.successful, t.failed, t.skipped, t.total_found, t.platform_limited,
         t.error_code, t.error_message, t.sent_at, t.ready_at, t.finished_at, t.created_at
  from task t where t.project_id = :project_id) t
where (:status::text is null or t.status = :status::text)
  and (:after_job::text is null or (t.job_id, t.platform) > (:after_job::text, :after_platform::text))
order by t.job_id, t.platform
limit :most::int;

-- name: keywords_of_jobs
-- What jobs look for: as it was dispatched, for a project's own lists may be kept in another order.
select distinct on (t.job_id) t.job_id, t.body -> 'keywords' ->> 0 as keyword
from task t where t.job_id = any(:job_ids::text[]) order by t.job_id, t.platform;

-- name: project_told
-- The progress webhooks of a project, newest first, each with its last attempt.
select d.endpoint_id, d.webhook_id, d.state, d.attempts, d.created_at, d.finished_at,
       convert_from(d.body, 'UTF8')::jsonb ->> 'status' as status,
       (convert_from(d.body, 'UTF8')::jsonb ->> 'overall_progress_percent')::float8 as percent,
       a.status as answer, a.error, a.latency_ms
from webhook_delivery d
left join lateral (
  select t.status, t.error, t.latency_ms from webhook_attempt t
  where t.delivery_id = d.delivery_id order by t.attempt_id desc limit 1) a on true
where d.subject = 'project:' || :project_id::text and d.cause = 'direct'
order by d.delivery_id desc limit :most::int;

-- name: project_analysis
-- When the analysis of a project was reported as stalled, and whether only the analysis is missing.
select stalled_at, status = 'PROCESSING' and tasks_done + tasks_errors >= tasks_total as waits
from project_state where project_id = :project_id;

-- name: dry_run_tasks
-- A dry run on every platform.
select t.platform, t.successful, t.failed, t.total_found, t.error_code, t.error_message, t.created_at,
       array(select json_array_elements_text(t.body -> 'keywords')) as keywords,
       case when t.state <> 'open' then t.state
            when t.attempt > (t.body ->> 'attempt')::int and (t.sent_at is null or t.ready_at > now()) then 'retrying'
            when t.sent_at is null then 'waiting'
            else 'sent' end as status
from task t where t.job_id = :job_id and t.project_id is null and t.task_type = 'dryrun_keyword'
order by t.platform;

-- name: dry_run_items
-- What a dry run found; its posts belong to no project.
select p.platform, p.id, p.content_text, p.author_name, p.permalink, p.published_at, p.view_count, p.like_count, p.fetch_status,
       p.error_code
from post_analytics p where p.job_id = :job_id and p.project_id is null
order by p.platform, p.view_count desc, p.id limit :most::int;
