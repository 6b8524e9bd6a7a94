-- docs/adr/0022-one-hot-row.md says why. First step: the new table, empty, and triggers that keep it in step with the
-- three tables that it replaces. Every statement may be run again, because the next steps may have to wait for a lock.

-- The order of the columns decides what an update logs: everything between the first and the last byte that differs.
-- What a job is made with stays when it ends, because the next one is mostly the same.
create table if not exists crawl_state (
  policy_id           uuid not null,
  enabled             boolean not null,
  -- the job: what it was made with
  host_id             int,
  priority            smallint check (priority between 0 and 100),
  base_priority       smallint,
  max_retries         smallint,
  retry_count         smallint,
  queue               text,
  created_by          text,
  -- when it is due, and in which budget
  due_pool            text,
  early_at            timestamptz,
  brought_forward_at  timestamptz,
  -- what adaptive visits learnt
  rate_shape          double precision,
  rate_days           double precision,
  interval_days       double precision,
  price_used          double precision,
  visits              int not null default 0,
  changes_seen        int not null default 0,
  surprise            real,
  gap_days            real,
  daily_hours         bytea,          -- 24 floats: evidence for a daily change in each hour (UTC)
  -- what every crawl changes
  last_failed_at      timestamptz,
  failure_count       int not null default 0,
  error_rate          real not null default 0,
  next_run_at         timestamptz not null,
  last_success_at     timestamptz,
  last_result_id      uuid,
  run_at              timestamptz,
  created_at          timestamptz,
  job_id              uuid,
  place               text check (place in ('due', 'free', 'gated', 'later', 'locked')),
  locked_at           timestamptz,
  locked_until        timestamptz,
  lock_ttl_seconds    double precision,
  lock_token          uuid,
  locked_by           text,
  -- what was seen last
  last_price          numeric,
  last_in_stock       boolean,
  last_html_hash      text,
  etag                text,
  last_modified       text,
  last_error          text,
  last_error_code     text,
  last_currency       text,
  last_title          text,
  last_data           jsonb,
  constraint crawl_state_pkey primary key (policy_id),
  constraint crawl_state_policy foreign key (policy_id) references policy on delete cascade,
  constraint due_is_enabled check (place is distinct from 'due' or enabled),
  constraint job_is_whole check (case when place is null or place = 'due' then job_id is null else
    num_nulls(job_id, host_id, priority, base_priority, max_retries, retry_count, queue, created_by, run_at, created_at) = 0 end),
  constraint lock_is_whole check (
    (place is not distinct from 'locked') = (lock_token is not null and locked_by is not null and locked_until is not null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- What changes by the minute has no statistics: the planner would take a moment in which every policy was due, or none, for a rule.
alter table crawl_state
  alter column place set statistics 0, alter column job_id set statistics 0, alter column run_at set statistics 0,
  alter column locked_until set statistics 0, alter column locked_by set statistics 0;
create unique index if not exists crawl_state_job on crawl_state (job_id) where job_id is not null;
create index if not exists crawl_state_due on crawl_state (next_run_at) where place = 'due' and due_pool is null;
create index if not exists crawl_state_due_pool on crawl_state (due_pool, next_run_at) where place = 'due' and due_pool is not null;
create index if not exists crawl_state_free on crawl_state (queue, priority desc, job_id) where place = 'free';
create index if not exists crawl_state_of_host on crawl_state (host_id, queue, priority desc, job_id) where place in ('free', 'gated');
create index if not exists crawl_state_later on crawl_state (run_at) where place = 'later';
create index if not exists crawl_state_expiry on crawl_state (locked_until) where place = 'locked';
create index if not exists crawl_state_held on crawl_state (queue, host_id) where place = 'locked';
create index if not exists crawl_state_of_bot on crawl_state (locked_by) where place = 'locked';

-- What a column becomes when a process changes an older reading of its row: it changes only what it meant to change.
create or replace function opilio_merge(was anyelement, wanted anyelement, stands anyelement) returns anyelement
language sql immutable parallel safe as $$ select case when wanted is distinct from was then wanted else stands end $$;

-- Changes of the three old tables, passed on. Until the exchange they are tables and this follows them; afterwards they are views,
-- and this serves processes of the version before.
create or replace function pass_policy_state() returns trigger language plpgsql as $$
declare
  switched boolean := tg_when = 'INSTEAD OF' and tg_op = 'UPDATE' and new.enabled <> old.enabled;  -- a job that the process did not see follows
begin
  if tg_when = 'AFTER' and tg_op <> 'DELETE' then
    perform copy_crawl_state(array[new.policy_id]);
  end if;
  if tg_op = 'DELETE' then
    delete from crawl_state where policy_id = old.policy_id;
    return old;
  elsif tg_op = 'UPDATE' then
    update crawl_state s set
      enabled = opilio_merge(old.enabled, new.enabled, s.enabled),
      place = case
        when s.place = 'due' and not opilio_merge(old.enabled, new.enabled, s.enabled) then null
        when switched and not new.enabled and s.place in ('free', 'gated') then 'later'
        else s.place end,
      run_at = case
        when switched and not new.enabled and s.place in ('free', 'gated', 'later') then 'infinity'
        when switched and new.enabled and s.place = 'later' and s.run_at = 'infinity' then now()
        else s.run_at end,
      next_run_at = opilio_merge(old.next_run_at, new.next_run_at, s.next_run_at),
      last_success_at = opilio_merge(old.last_success_at, new.last_success_at, s.last_success_at),
      last_failed_at = opilio_merge(old.last_failed_at, new.last_failed_at, s.last_failed_at),
      failure_count = opilio_merge(old.failure_count, new.failure_count, s.failure_count),
      error_rate = opilio_merge(old.error_rate, new.error_rate, s.error_rate),
      last_result_id = opilio_merge(old.last_result_id, new.last_result_id, s.last_result_id),
      last_price = opilio_merge(old.last_price, new.last_price, s.last_price),
      last_currency = opilio_merge(old.last_currency, new.last_currency, s.last_currency),
      last_title = opilio_merge(old.last_title, new.last_title, s.last_title),
      last_in_stock = opilio_merge(old.last_in_stock, new.last_in_stock, s.last_in_stock),
      last_data = opilio_merge(old.last_data, new.last_data, s.last_data),
      last_html_hash = opilio_merge(old.last_html_hash, new.last_html_hash, s.last_html_hash),
      etag = opilio_merge(old.etag, new.etag, s.etag),
      last_modified = opilio_merge(old.last_modified, new.last_modified, s.last_modified),
      rate_shape = opilio_merge(old.rate_shape, new.rate_shape, s.rate_shape),
      rate_days = opilio_merge(old.rate_days, new.rate_days, s.rate_days),
      daily_hours = opilio_merge(old.daily_hours, new.daily_hours, s.daily_hours),
      interval_days = opilio_merge(old.interval_days, new.interval_days, s.interval_days),
      price_used = opilio_merge(old.price_used, new.price_used, s.price_used),
      visits = opilio_merge(old.visits, new.visits, s.visits),
      changes_seen = opilio_merge(old.changes_seen, new.changes_seen, s.changes_seen),
      surprise = opilio_merge(old.surprise, new.surprise, s.surprise),
      gap_days = opilio_merge(old.gap_days, new.gap_days, s.gap_days),
      brought_forward_at = opilio_merge(old.brought_forward_at, new.brought_forward_at, s.brought_forward_at)
    where s.policy_id = new.policy_id;
  end if;
  return new;
end $$;

create or replace function pass_policy_due() returns trigger language plpgsql as $$
begin
  if tg_when = 'AFTER' then
    perform copy_crawl_state(array[case tg_op when 'DELETE' then old.policy_id else new.policy_id end]);
  end if;
  if tg_op = 'DELETE' then
    -- A reader of an older moment does not take a place that was moved meanwhile.
    update crawl_state s set place = null
    where s.policy_id = old.policy_id and s.place = 'due' and (tg_when = 'AFTER' or s.next_run_at = old.due_at);
    return case when found or tg_when = 'AFTER' then old end;
  elsif tg_op = 'INSERT' then
    update crawl_state s set next_run_at = new.due_at, due_pool = new.pool, early_at = new.early_at,
      place = case when s.job_id is null and s.enabled then 'due' else s.place end
    where s.policy_id = new.policy_id;
  else
    update crawl_state s set next_run_at = opilio_merge(old.due_at, new.due_at, s.next_run_at),
      due_pool = opilio_merge(old.pool, new.pool, s.due_pool), early_at = opilio_merge(old.early_at, new.early_at, s.early_at)
    where s.policy_id = new.policy_id and (tg_when = 'AFTER' or s.place = 'due');
    if not found then
      return null;
    end if;
  end if;
  return new;
end $$;

create or replace function pass_job_active() returns trigger language plpgsql as $$
begin
  if tg_when = 'AFTER' then
    perform copy_crawl_state(array[case tg_op when 'DELETE' then old.policy_id else new.policy_id end]);
  end if;
  if tg_op = 'DELETE' then
    -- A policy is due when its job is gone: the order in which one statement deletes the job and says so is not known.
    update crawl_state s set job_id = null, place = case when s.enabled then 'due' end, run_at = null, created_at = null,
      locked_by = null, locked_at = null, locked_until = null, lock_ttl_seconds = null, lock_token = null, last_error = null, last_error_code = null
    where s.policy_id = old.policy_id and s.job_id = old.job_id;
    return case when found or tg_when = 'AFTER' then old end;
  elsif tg_op = 'INSERT' then
    update crawl_state s set job_id = new.job_id, host_id = new.host_id, queue = new.queue, place = new.place, priority = new.priority,
      base_priority = new.base_priority, retry_count = new.retry_count, max_retries = new.max_retries, run_at = new.run_at,
      created_at = new.created_at, created_by = new.created_by, locked_by = new.locked_by, locked_at = new.locked_at,
      locked_until = new.locked_until, lock_ttl_seconds = new.lock_ttl_seconds, lock_token = new.lock_token,
      last_error = new.last_error, last_error_code = new.last_error_code
    where s.policy_id = new.policy_id;
  else
    update crawl_state s set
      host_id = opilio_merge(old.host_id, new.host_id, s.host_id),
      queue = opilio_merge(old.queue, new.queue, s.queue),
      place = opilio_merge(old.place, new.place, s.place),
      priority = opilio_merge(old.priority, new.priority, s.priority),
      base_priority = opilio_merge(old.base_priority, new.base_priority, s.base_priority),
      retry_count = opilio_merge(old.retry_count, new.retry_count, s.retry_count),
      max_retries = opilio_merge(old.max_retries, new.max_retries, s.max_retries),
      run_at = opilio_merge(old.run_at, new.run_at, s.run_at),
      created_at = opilio_merge(old.created_at, new.created_at, s.created_at),
      created_by = opilio_merge(old.created_by, new.created_by, s.created_by),
      locked_by = opilio_merge(old.locked_by, new.locked_by, s.locked_by),
      locked_at = opilio_merge(old.locked_at, new.locked_at, s.locked_at),
      locked_until = opilio_merge(old.locked_until, new.locked_until, s.locked_until),
      lock_ttl_seconds = opilio_merge(old.lock_ttl_seconds, new.lock_ttl_seconds, s.lock_ttl_seconds),
      lock_token = opilio_merge(old.lock_token, new.lock_token, s.lock_token),
      last_error = opilio_merge(old.last_error, new.last_error, s.last_error),
      last_error_code = opilio_merge(old.last_error_code, new.last_error_code, s.last_error_code)
    where s.policy_id = new.policy_id and s.job_id = old.job_id;
    if not found then
      return null;
    end if;
  end if;
  return new;
end $$;

-- Rows that are not there yet, from the old tables as they stand now. Whoever comes second waits and finds them. The policies are locked
-- first, and read after that: one that is deleted in this moment has no row.
create or replace function copy_crawl_state(ids uuid[]) returns void language sql as $$
  select 1 from policy where policy_id = any(ids) order by policy_id for key share;
  insert into crawl_state (policy_id, enabled, host_id, priority, base_priority, max_retries, retry_count, queue, created_by, due_pool,
    early_at, brought_forward_at, rate_shape, rate_days, interval_days, price_used, visits, changes_seen, surprise, gap_days, daily_hours,
    last_failed_at, failure_count, error_rate, next_run_at, last_success_at, last_result_id, run_at, created_at, job_id, place,
    locked_at, locked_until, lock_ttl_seconds, lock_token, locked_by, last_price, last_in_stock, last_html_hash, etag, last_modified,
    last_error, last_error_code, last_currency, last_title, last_data)
  select s.policy_id, s.enabled, j.host_id, j.priority, j.base_priority, j.max_retries, j.retry_count, j.queue, j.created_by, d.pool,
    d.early_at, s.brought_forward_at, s.rate_shape, s.rate_days, s.interval_days, s.price_used, s.visits, s.changes_seen, s.surprise, s.gap_days, s.daily_hours,
    s.last_failed_at, s.failure_count, s.error_rate, coalesce(d.due_at, s.next_run_at), s.last_success_at, s.last_result_id, j.run_at, j.created_at, j.job_id,
    coalesce(j.place, case when d.policy_id is not null and s.enabled then 'due' end),
    j.locked_at, j.locked_until, j.lock_ttl_seconds, j.lock_token, j.locked_by, s.last_price, s.last_in_stock, s.last_html_hash, s.etag, s.last_modified,
    j.last_error, j.last_error_code, s.last_currency, s.last_title, s.last_data
  from unnest(ids) i(policy_id)
  join policy_state s on s.policy_id = i.policy_id
  left join policy_due d on d.policy_id = i.policy_id
  left join job_active j on j.policy_id = i.policy_id
  order by i.policy_id
  on conflict (policy_id) do nothing
$$;

lock table job_active, policy_state, policy_due in share row exclusive mode;  -- in the order of most of those who use them
create or replace trigger pass_policy_state after insert or update or delete on policy_state for each row execute function pass_policy_state();
create or replace trigger pass_policy_due after insert or update or delete on policy_due for each row execute function pass_policy_due();
create or replace trigger pass_job_active after insert or update or delete on job_active for each row execute function pass_job_active();
