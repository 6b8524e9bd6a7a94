-- First step: the three tables, empty, and a trigger that keeps them in step. Every statement may be run again.
create table if not exists old_policy_state (
  policy_id           uuid constraint policy_state_pkey primary key constraint policy_state_policy_id_fkey references policy on delete cascade,
  enabled             boolean not null,
  next_run_at         timestamptz not null,
  last_success_at     timestamptz,
  last_failed_at      timestamptz,
  failure_count       int not null default 0,
  error_rate          real not null default 0,
  last_result_id      uuid,
  last_price          numeric,
  last_currency       text,
  last_title          text,
  last_in_stock       boolean,
  last_data           jsonb,
  last_html_hash      text,
  etag                text,
  last_modified       text,
  rate_shape          double precision,
  rate_days           double precision,
  daily_hours         bytea,
  interval_days       double precision,
  price_used          double precision,
  visits              int not null default 0,
  changes_seen        int not null default 0,
  surprise            real,
  gap_days            real,
  brought_forward_at  timestamptz
) with (fillfactor = 75);
create table if not exists old_policy_due (
  policy_id  uuid constraint policy_due_pkey primary key,
  due_at     timestamptz not null,
  pool       text,
  early_at   timestamptz
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create table if not exists old_job_active (
  job_id            uuid constraint job_active_pkey primary key default opilio_uuid7(),
  policy_id         uuid not null,
  host_id           int not null,
  queue             text not null,
  place             text not null constraint job_active_place_check check (place in ('free', 'gated', 'later', 'locked')),
  priority          smallint not null constraint job_active_priority_check check (priority between 0 and 100),
  base_priority     smallint not null,
  retry_count       smallint not null default 0,
  max_retries       smallint not null,
  run_at            timestamptz not null,
  created_at        timestamptz not null default now(),
  created_by        text not null,
  locked_by         text,
  locked_at         timestamptz,
  locked_until      timestamptz,
  lock_ttl_seconds  double precision,
  lock_token        uuid,
  last_error        text,
  last_error_code   text,
  constraint lock_is_whole check (
    (place = 'locked') = (lock_token is not null and locked_by is not null and locked_until is not null))
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
create index if not exists policy_due_at on old_policy_due (due_at) where pool is null;
create index if not exists policy_due_pool on old_policy_due (pool, due_at) where pool is not null;
create unique index if not exists job_active_one_per_policy on old_job_active (policy_id);
create index if not exists job_active_free on old_job_active (queue, priority desc, job_id) where place = 'free';
create index if not exists job_active_of_host on old_job_active (host_id, queue, priority desc, job_id) where place in ('free', 'gated');
create index if not exists job_active_later on old_job_active (run_at) where place = 'later';
create index if not exists job_active_expiry on old_job_active (locked_until) where place = 'locked';
create index if not exists job_active_held on old_job_active (queue, host_id) where place = 'locked';
create index if not exists job_active_of_bot on old_job_active (locked_by) where place = 'locked';

-- Rows that are not there yet. They are locked, so that whoever changes them comes before or after.
create or replace function copy_old_state(ids uuid[]) returns void language plpgsql as $$
begin
  perform 1 from crawl_state where policy_id = any(ids) order by policy_id for share;
  insert into old_policy_state
  select policy_id, enabled, next_run_at, last_success_at, last_failed_at, failure_count, error_rate, last_result_id, last_price,
    last_currency, last_title, last_in_stock, last_data, last_html_hash, etag, last_modified, rate_shape, rate_days,
    daily_hours, interval_days, price_used, visits, changes_seen, surprise, gap_days, brought_forward_at
  from crawl_state where policy_id = any(ids) on conflict (policy_id) do nothing;
  insert into old_policy_due
  select policy_id, next_run_at, due_pool, early_at from crawl_state
  where policy_id = any(ids) and place = 'due' on conflict (policy_id) do nothing;
  insert into old_job_active
  select job_id, policy_id, host_id, queue, place, priority, base_priority, retry_count, max_retries, run_at, created_at, created_by,
    locked_by, locked_at, locked_until, lock_ttl_seconds, lock_token, last_error, last_error_code
  from crawl_state where policy_id = any(ids) and job_id is not null on conflict (policy_id) do nothing;
end $$;

create or replace function pass_crawl_state() returns trigger language plpgsql as $$
declare
  changed uuid := case tg_op when 'DELETE' then old.policy_id else new.policy_id end;
begin
  delete from old_policy_state where policy_id = changed;
  delete from old_policy_due where policy_id = changed;
  delete from old_job_active where policy_id = changed;
  if tg_op <> 'DELETE' then
    perform copy_old_state(array[changed]);
  end if;
  return null;
end $$;
create or replace trigger pass_crawl_state after insert or update or delete on crawl_state for each row execute function pass_crawl_state();
