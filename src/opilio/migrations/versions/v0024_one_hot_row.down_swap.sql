-- Third step: the tables take the place of the views, in one short transaction.
-- Whoever waits for us while we wait for them would be refused by PostgreSQL after a second (a deadlock), so we give way before that, and
-- try again. Views come before what they read, as for everybody who reads them.
set local lock_timeout = '700ms';
do $$
begin
  for tries in reverse 20 .. 1 loop
    begin
      drop view crawl_job, crawl_policy, job_timeline, job, policy_state, policy_due, job_active;
      lock table crawl_state, policy in access exclusive mode;
      return;
    exception when lock_not_available or deadlock_detected then
      if tries = 1 then
        raise;
      end if;
    end;
    perform pg_sleep(0.2 + random() * 0.3);
  end loop;
end $$;
drop table crawl_state;
drop function enter_crawl_state();
drop function pass_policy_state();
drop function pass_policy_due();
drop function pass_job_active();
drop function pass_crawl_state();
drop function copy_old_state(uuid[]);
drop function opilio_merge(anyelement, anyelement, anyelement);
alter table old_policy_state rename to policy_state;
alter table old_policy_due rename to policy_due;
alter table old_job_active rename to job_active;

create view job as
  select job_id, policy_id, host_id, queue, case place when 'locked' then 'locked' else 'pending' end as status,
         place, priority, base_priority, retry_count, max_retries, run_at, created_at, created_by,
         locked_by, locked_at, locked_until, lock_ttl_seconds, lock_token, last_error, last_error_code,
         null::timestamptz as finished_at, null::text as finished_by, null::text as reason, null::uuid as result_id,
         null::bytea as digest, null::jsonb as answer
  from job_active
  union all
  select job_id, policy_id, host_id, queue, status,
         null, priority, base_priority, retry_count, max_retries, run_at, created_at, created_by,
         locked_by, locked_at, locked_until, lock_ttl_seconds, lock_token, last_error, last_error_code,
         finished_at, finished_by, reason, result_id, digest, answer
  from job_archive;
create view job_timeline as
  select job_id, 0::bigint as step, null::text as from_state, 'pending' as to_state, created_at as at, created_by as by,
         'created' as reason
  from job
  union all
  select job_id, step, from_state, to_state, at, by, reason from job_step
  union all
  select job_id, 9223372036854775806, 'pending', 'locked', locked_at, 'bot:' || locked_by, 'pulled'
  from job where locked_at is not null
  union all
  select job_id, 9223372036854775807, 'locked', status, finished_at, finished_by, reason
  from job where finished_at is not null;
create view crawl_policy as
  select p.policy_id as id, p.url, s.enabled, p.frequency_hours, p.priority, p.max_retries, p.retry_backoff_minutes,
         p.timeout_minutes, p.job_queue as queue, p.crawl_config, p.rule_set, p.hot, p.labels, s.next_run_at,
         s.last_success_at, s.last_failed_at, s.failure_count, p.created_at, p.updated_at,
         p.schedule, p.min_interval_hours, p.max_interval_hours
  from policy p join policy_state s using (policy_id)
  where p.deleted_at is null;
create view crawl_job as
  select j.job_id as id, p.url, j.status, j.locked_by, j.locked_at, j.lock_ttl_seconds, j.policy_id, j.queue, j.priority,
         j.retry_count, j.max_retries, j.run_at, j.last_error, j.created_at, j.finished_at
  from job j join policy p using (policy_id);
