-- Everything that the demo brought, deleted in one transaction; the audit log stays, as always.

-- name: demo_rows
-- Its policies with their addresses and hosts, deleted ones too.
select policy_id, url, host_id from policy where labels ->> 'demo' = 'true';

-- name: demo_tasks
-- The tasks of its project, by which its stored batches are found.
select platform, job_id from task where project_id = :project;

-- name: delete_late_results
-- Late results of its jobs.
delete from late_result where job_id in (
  select job_id from job_archive where policy_id = any(:policy_ids::uuid[])
  union all select job_id from job_active where policy_id = any(:policy_ids::uuid[]));

-- name: delete_job_steps
-- Their timelines.
delete from job_step where job_id in (
  select job_id from job_archive where policy_id = any(:policy_ids::uuid[])
  union all select job_id from job_active where policy_id = any(:policy_ids::uuid[]));

-- name: delete_pages
-- Raw pages.
delete from result_html where result_id in (
  select result_id from stored_result where policy_id = any(:policy_ids::uuid[]));

-- name: delete_results
-- Results.
delete from result where policy_id = any(:policy_ids::uuid[]);

-- name: delete_archived_jobs
-- Finished jobs, with the results and events that they carry.
delete from job_archive where policy_id = any(:policy_ids::uuid[]);

-- name: delete_values
-- Value history.
with first as (delete from first_values where policy_id = any(:policy_ids::uuid[]))
delete from changed_value where policy_id = any(:policy_ids::uuid[]);

-- name: delete_alert_states
-- What alerts remember of its policies.
delete from value_alert_state where policy_id = any(:policy_ids::uuid[]);

-- name: delete_alerts
-- Alerts that were set on one of its policies alone.
delete from value_alert where policy_id = any(:policy_ids::uuid[]);

-- name: delete_policies
-- The policies, with their state and the jobs that wait or run.
delete from policy where policy_id = any(:policy_ids::uuid[]);

-- name: delete_gates
-- Gates of its hosts.
delete from gate where host_id = any(:host_ids::bigint[])
  and not exists (select from policy p where p.host_id = gate.host_id);

-- name: delete_siblings
-- What was learnt about folders of its hosts.
delete from sibling_change where host_id = any(:host_ids::bigint[])
  and not exists (select from policy p where p.host_id = sibling_change.host_id);

-- name: delete_hosts
-- Its shop's hosts, unless somebody's own policies name them.
delete from host where host_id = any(:host_ids::bigint[])
  and not exists (select from policy p where p.host_id = host.host_id);

-- name: delete_bot_activity
-- What its bot did.
delete from bot_activity where bot_id = :bot;

-- name: delete_bot_tokens
-- The bot's tokens.
delete from bot_token where bot_id = :bot;

-- name: delete_bot
-- The bot.
delete from bot where bot_id = :bot;

-- name: delete_events
-- Events of its pages and its project.
delete from event where subject = any(:urls::text[]) or subject = :project;

-- name: delete_outbox
-- Events that are not logged yet.
delete from outbox where subject = any(:urls::text[]) or subject = :project;

-- name: delete_outbound
-- Messages that are not published yet.
delete from outbound where subject = any(:urls::text[]) or subject = :project;

-- name: delete_deliveries
-- Webhook deliveries of these events.
delete from webhook_delivery where subject = any(:urls::text[]) or subject = :project;

-- name: delete_progress
-- Progress reports of its project.
delete from webhook_progress where subject = :project;

-- name: delete_messages
-- Tasks, results and batches of its project that wait in a queue.
delete from bus_message where position(convert_to('"' || :project::text || '"', 'UTF8') in body) > 0
  or exists (select from task t where t.project_id = :project and position(convert_to(t.job_id, 'UTF8') in bus_message.body) > 0);

-- name: delete_comments
-- Comments under its posts.
delete from post_comments where post_key in (select post_key from post_identity where project = :project);

-- name: delete_keywords
-- Keywords of its posts.
delete from post_keywords where project_id = :project;

-- name: delete_digests
-- Sums of its posts.
delete from post_digest where project_id = :project;

-- name: delete_posts
-- Its posts.
delete from post_analytics where project_id = :project;

-- name: delete_identities
-- What makes its posts unique.
delete from post_identity where project = :project;

-- name: delete_crawl_errors
-- Posts that could not be fetched.
delete from crawl_errors where project_id = :project;

-- name: delete_batches
-- Batches that were analysed.
delete from analysed_batch where project_id = :project;

-- name: delete_analytics_project
-- The project in analytics.
delete from analytics_project where project_id = :project;

-- name: delete_batch_results
-- Results of its batches.
delete from batch_result where project_id = :project;

-- name: delete_task_results
-- Results of its tasks.
delete from task_result r using task t
where t.project_id = :project and (r.platform, r.job_id) = (t.platform, t.job_id);

-- name: delete_tasks
-- Its tasks.
delete from task where project_id = :project;

-- name: delete_warnings
-- Warnings.
delete from project_warning where project_id = :project;

-- name: delete_project_state
-- Counters.
delete from project_state where project_id = :project;

-- name: delete_project
-- The project.
delete from project where project_id = :project;
