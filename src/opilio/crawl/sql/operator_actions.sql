-- name: take_finished
-- Ended jobs that an operator wants to run again, with what must be remembered of their end.
select a.job_id, a.policy_id, a.status, a.locked_by, a.locked_at, a.lock_token, a.finished_at,
       coalesce(a.finished_by, 'bot:' || a.locked_by) as finished_by, coalesce(a.reason, 'result accepted') as reason,
       a.base_priority, a.digest, archived_answer(a)::text as answer, p.deleted_at,
       exists (select 1 from crawl_state s where s.policy_id = a.policy_id and s.job_id is not null) as busy, coalesce(:now::timestamptz, now()) as at
from job_archive a join policy p on p.policy_id = a.policy_id
where a.job_id = any(:job_ids::uuid[])
order by a.job_id
for update of a;

-- name: revive_jobs
-- Brings ended jobs back as new, by what their policy says now: host, queue, enabled or not. A policy that has a job keeps that.
with gone as (delete from job_archive a where a.job_id = any(:job_ids::uuid[]) returning a.*)
update crawl_state s set job_id = g.job_id, host_id = p.host_id, queue = p.job_queue, place = 'later', priority = g.base_priority,
  base_priority = g.base_priority, retry_count = 0, max_retries = g.max_retries,
  run_at = case when s.enabled then coalesce(:now::timestamptz, now()) else 'infinity' end,
  created_at = g.created_at, created_by = g.created_by, last_error = g.last_error, last_error_code = g.last_error_code
from gone g join policy p on p.policy_id = g.policy_id and p.deleted_at is null
where s.policy_id = g.policy_id and s.job_id is null
returning s.job_id;

-- name: create_now
-- A job at once for one policy, due or not; with an active job nothing happens.
update crawl_state s set job_id = opilio_uuid7(), host_id = p.host_id, queue = p.job_queue, place = 'later', priority = :priority::int,
  base_priority = :priority::int, retry_count = 0, max_retries = p.max_retries, run_at = coalesce(:now::timestamptz, now()),
  created_at = coalesce(:now::timestamptz, now()), created_by = :by::text, last_error = null, last_error_code = null
from policy p
where p.policy_id = :policy_id::uuid and p.deleted_at is null and s.policy_id = p.policy_id and s.job_id is null
returning s.job_id;

-- name: hurry_active_job
-- The active job of a policy, if any; one that waits for its retry waits no longer.
with hurried as (
  update crawl_state j set run_at = coalesce(:now::timestamptz, now())
  where j.policy_id = :policy_id::uuid and j.place = 'later' and j.run_at > coalesce(:now::timestamptz, now()))
select job_id from crawl_state where policy_id = :policy_id::uuid and job_id is not null;

-- name: policy_to_run
-- What decides the priority of a job that an operator asks for. The policy is not deleted meanwhile.
select p.priority, p.hot, s.error_rate from policy p join crawl_state s on s.policy_id = p.policy_id
where p.policy_id = :policy_id::uuid and p.deleted_at is null
for share of p;
