-- name: take_finished
-- Ended jobs that an operator wants to run again, with what must be remembered of their end.
select a.job_id, a.policy_id, a.status, a.locked_by, a.locked_at, a.lock_token, a.finished_at, a.finished_by, a.reason,
       a.base_priority, a.digest, archived_answer(a)::text as answer, p.deleted_at,
       exists (select 1 from job_active j where j.policy_id = a.policy_id) as busy, coalesce(:now::timestamptz, now()) as at
from job_archive a join policy p on p.policy_id = a.policy_id
where a.job_id = any(:job_ids::uuid[])
order by a.job_id
for update of a;

-- name: revive_jobs
-- Brings ended jobs back as new, by what their policy says now: host, queue, enabled or not. The unique index
-- refuses a second active job.
with gone as (delete from job_archive a where a.job_id = any(:job_ids::uuid[]) returning a.*),
undue as (delete from policy_due d using gone g where d.policy_id = g.policy_id)
insert into job_active (job_id, policy_id, host_id, queue, place, priority, base_priority, retry_count, max_retries, run_at,
  created_at, created_by, last_error, last_error_code)
select g.job_id, g.policy_id, p.host_id, p.job_queue, 'later', g.base_priority, g.base_priority, 0, g.max_retries,
  case when s.enabled then coalesce(:now::timestamptz, now()) else 'infinity' end,
  g.created_at, g.created_by, g.last_error, g.last_error_code
from gone g join policy p on p.policy_id = g.policy_id join policy_state s on s.policy_id = g.policy_id
on conflict (policy_id) do nothing
returning job_id;

-- name: create_now
-- A job at once for one policy, due or not; with an active job nothing happens.
with clock as (select coalesce(:now::timestamptz, now()) as at),
taken as (delete from policy_due where policy_id = :policy_id::uuid),
created as (
  insert into job_active (policy_id, host_id, queue, place, priority, base_priority, max_retries, run_at, created_at, created_by)
  select p.policy_id, p.host_id, p.job_queue, 'later', :priority::int, :priority::int, p.max_retries, clock.at, clock.at, :by::text
  from policy p cross join clock
  where p.policy_id = :policy_id::uuid and p.deleted_at is null
  on conflict (policy_id) do nothing
  returning job_id)
select job_id from created;

-- name: hurry_active_job
-- The active job of a policy, if any; one that waits for its retry waits no longer.
with hurried as (
  update job_active j set run_at = coalesce(:now::timestamptz, now())
  where j.policy_id = :policy_id::uuid and j.place = 'later' and j.run_at > coalesce(:now::timestamptz, now()))
select job_id from job_active where policy_id = :policy_id::uuid;

-- name: policy_to_run
-- What decides the priority of a job that an operator asks for.
select p.priority, p.hot, s.error_rate from policy p join policy_state s on s.policy_id = p.policy_id
where p.policy_id = :policy_id::uuid and p.deleted_at is null;
