-- Third step: views take the place of the tables, in one short transaction.
-- Whoever waits for us while we wait for them would be refused by PostgreSQL after a second (a deadlock), so we give way before that, and
-- try again. Views come before what they read, as for everybody who reads them.
set local lock_timeout = '700ms';
do $$
begin
  for tries in reverse 20 .. 1 loop
    begin
      drop view crawl_job, crawl_policy, job_timeline, job;
      lock table job_active, policy, policy_state, policy_due in access exclusive mode;
      return;
    exception when lock_not_available or deadlock_detected then
      if tries = 1 then
        raise;
      end if;
    end;
    perform pg_sleep(0.2 + random() * 0.3);
  end loop;
end $$;
drop table policy_state, policy_due, job_active;
drop function copy_crawl_state(uuid[]);

create view policy_state as
  select policy_id, enabled, next_run_at, last_success_at, last_failed_at, failure_count, error_rate, last_result_id, last_price,
         last_currency, last_title, last_in_stock, last_data, last_html_hash, etag, last_modified, rate_shape, rate_days,
         daily_hours, interval_days, price_used, visits, changes_seen, surprise, gap_days, brought_forward_at
  from crawl_state;
-- `place` and `ctid` are for processes of the version before: the one is inserted by default, the other deleted by.
create view policy_due as
  select policy_id, next_run_at as due_at, due_pool as pool, early_at, place, ctid from crawl_state where place = 'due';
alter view policy_due alter column place set default 'due';
create view job_active as
  select job_id, policy_id, host_id, queue, place, priority, base_priority, retry_count, max_retries, run_at, created_at, created_by,
         locked_by, locked_at, locked_until, lock_ttl_seconds, lock_token, last_error, last_error_code
  from crawl_state where job_id is not null;
alter view job_active alter column job_id set default opilio_uuid7(), alter column retry_count set default 0, alter column created_at set default now();
create trigger pass_policy_state instead of update or delete on policy_state for each row execute function pass_policy_state();
create trigger pass_policy_due instead of update or delete on policy_due for each row execute function pass_policy_due();
create trigger pass_job_active instead of update or delete on job_active for each row execute function pass_job_active();

-- A row that is inserted through policy_due or job_active (they do not say `enabled`) replaces the one that its policy has. Inserting
-- is left to the table, so that `on conflict` and `returning` mean what they always did.
create function enter_crawl_state() returns trigger language plpgsql as $$
declare
  known crawl_state;
begin
  select * into known from crawl_state where policy_id = new.policy_id for update;
  if not found then
    new.enabled := true;
    new.next_run_at := coalesce(new.next_run_at, now());
    return new;
  elsif new.job_id is not null and (known.job_id is not null or (new.created_by = 'scheduler' and not known.enabled)) then
    return null;  -- one job at a time, and none of a policy that was switched off in this moment
  elsif new.job_id is null then
    known.next_run_at := new.next_run_at;
    known.due_pool := new.due_pool;
    known.early_at := new.early_at;
    if known.job_id is not null or not known.enabled then
      update crawl_state s set next_run_at = known.next_run_at, due_pool = known.due_pool, early_at = known.early_at
      where s.policy_id = known.policy_id;
      return null;  -- due when the job has ended
    end if;
    known.place := 'due';
  else
    known.job_id := new.job_id;
    known.host_id := new.host_id;
    known.queue := new.queue;
    known.place := new.place;
    known.priority := new.priority;
    known.base_priority := new.base_priority;
    known.retry_count := new.retry_count;
    known.max_retries := new.max_retries;
    known.run_at := new.run_at;
    known.created_at := new.created_at;
    known.created_by := new.created_by;
    known.locked_by := new.locked_by;
    known.locked_at := new.locked_at;
    known.locked_until := new.locked_until;
    known.lock_ttl_seconds := new.lock_ttl_seconds;
    known.lock_token := new.lock_token;
    known.last_error := new.last_error;
    known.last_error_code := new.last_error_code;
  end if;
  delete from crawl_state where policy_id = known.policy_id;
  return known;
end $$;
create trigger enter_crawl_state before insert on crawl_state for each row when (new.enabled is null) execute function enter_crawl_state();

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
