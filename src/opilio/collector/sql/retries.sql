-- name: lock_retries
-- One retry of a project at a time, so that a post is not sent out twice.
select pg_advisory_xact_lock(hashtext('opilio.collector.retry_items'), hashtext(:project_id));

-- name: retryable_posts
-- Posts of a project whose last crawl failed with an error that may pass, and that no open retry contains.
with waiting as (
  select t.platform, jsonb_array_elements_text(t.body::jsonb -> 'payload' -> 'content_ids') as id
  from task t
  where t.state = 'open' and t.project_id is null and t.task_type = 'crawl_links' and starts_with(t.job_id, :prefix)
)
select p.platform, p.id, p.permalink
from post_analytics p
where p.project_id = :project_id and p.fetch_status = 'error' and p.error_code <> all(:final_codes::text[])
  and p.platform = any(:platforms::text[])
  and not exists (select from waiting w where (w.platform, w.id) = (p.platform, p.id))
order by p.platform, p.id limit :most::int;

-- name: project_is_known
-- Whether a project was created here or has posts.
select exists (select from project where project_id = :project_id)
    or exists (select from analytics_project where project_id = :project_id);
