drop view crawl_job, crawl_policy, job_timeline, job;
drop view policy_state, policy_due, job_active;
create table policy_state (
  policy_id           uuid primary key references policy on delete cascade,
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
create table policy_due (
  policy_id  uuid primary key,
  due_at     timestamptz not null,
  pool       text,
  early_at   timestamptz
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create table job_active (
  job_id            uuid primary key default opilio_uuid7(),
  policy_id         uuid not null,
  host_id           int not null,
  queue             text not null,
  place             text not null check (place in ('free', 'gated', 'later', 'locked')),
  priority          smallint not null check (priority between 0 and 100),
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
insert into policy_state
select policy_id, enabled, next_run_at, last_success_at, last_failed_at, failure_count, error_rate, last_result_id, last_price,
       last_currency, last_title, last_in_stock, last_data, last_html_hash, etag, last_modified, rate_shape, rate_days,
       daily_hours, interval_days, price_used, visits, changes_seen, surprise, gap_days, brought_forward_at
from crawl_state;
insert into policy_due select policy_id, next_run_at, due_pool, early_at from crawl_state where place = 'due';
insert into job_active
select job_id, policy_id, host_id, queue, place, priority, base_priority, retry_count, max_retries, run_at, created_at, created_by,
       locked_by, locked_at, locked_until, lock_ttl_seconds, lock_token, last_error, last_error_code
from crawl_state where job_id is not null;
create index policy_due_at on policy_due (due_at) where pool is null;
create index policy_due_pool on policy_due (pool, due_at) where pool is not null;
create unique index job_active_one_per_policy on job_active (policy_id);
create index job_active_free on job_active (queue, priority desc, job_id) where place = 'free';
create index job_active_of_host on job_active (host_id, queue, priority desc, job_id) where place in ('free', 'gated');
create index job_active_later on job_active (run_at) where place = 'later';
create index job_active_expiry on job_active (locked_until) where place = 'locked';
create index job_active_held on job_active (queue, host_id) where place = 'locked';
create index job_active_of_bot on job_active (locked_by) where place = 'locked';
drop table crawl_state;
drop function enter_crawl_state();
drop function pass_policy_state();
drop function pass_policy_due();
drop function pass_job_active();
drop function opilio_merge(anyelement, anyelement, anyelement);

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
