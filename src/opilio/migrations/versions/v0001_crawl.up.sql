-- URL jobs. docs/explanation/store.md says why the tables are cut like this.

-- Time-ordered ids (RFC 9562, version 7): native from PostgreSQL 18 on, the same bits before.
do $$
begin
  if current_setting('server_version_num')::int >= 180000 then
    execute 'create function opilio_uuid7() returns uuid language sql volatile parallel safe as ''select uuidv7()''';
  else
    execute $f$
      create function opilio_uuid7() returns uuid language sql volatile parallel safe as $body$
        select encode(
          set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                    placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                    from 1 for 6),
            52, 1), 53, 1), 'hex')::uuid
      $body$
    $f$;
  end if;
end $$;

-- ── hosts: politeness belongs to the dispatcher ─────────────────────────────────────────────────
create table host (
  host_id            int generated always as identity primary key,
  name               text not null unique,
  name_reversed      text generated always as (reverse(name)) stored,
  max_concurrent     int check (max_concurrent > 0),
  min_delay_seconds  double precision check (min_delay_seconds >= 0),
  next_at            timestamptz not null default 'epoch',  -- earliest next hand-out, where a delay is set
  cooling_until      timestamptz not null default 'epoch',
  cooling_reason     text,
  strikes            smallint not null default 0,               -- consecutive coolings
  gated              boolean not null default false,            -- has limits of its own, or was cooled
  created_at         timestamptz not null default now()
) with (fillfactor = 80);
create index host_gated on host (host_id) where gated;
create index host_in_domain on host (name_reversed text_pattern_ops);

-- ── policies: what is crawled, and how often ────────────────────────────────────────────────────
create table policy (
  policy_id              uuid primary key default opilio_uuid7(),
  url                    text not null check (length(url) <= 2048),
  host_id                int not null references host,
  frequency_hours        double precision not null check (frequency_hours > 0),
  priority               smallint not null check (priority between 0 and 100),
  max_retries            smallint not null check (max_retries >= 0),
  retry_backoff_minutes  double precision not null check (retry_backoff_minutes > 0),
  timeout_minutes        double precision not null check (timeout_minutes > 0),
  queue                  text check (queue in ('http', 'js', 'special')),           -- as the user set it
  job_queue              text not null check (job_queue in ('http', 'js', 'special')), -- as the rule engine chose
  crawl_config           jsonb not null default '{}',
  rule_set               jsonb not null default '{}',
  hot                    boolean not null default false,
  labels                 jsonb not null default '{}',
  created_at             timestamptz not null default now(),
  updated_at             timestamptz not null default now(),
  deleted_at             timestamptz
);
create unique index policy_url on policy (url) where deleted_at is null;
create index policy_host on policy (host_id, policy_id) where deleted_at is null;

-- The part of a policy that every crawl rewrites, kept narrow; nothing but its key is indexed, so that
-- updates stay in their page.
create table policy_state (
  policy_id        uuid primary key references policy on delete cascade,
  enabled          boolean not null,
  next_run_at      timestamptz not null,
  last_success_at  timestamptz,
  last_failed_at   timestamptz,
  failure_count    int not null default 0,
  error_rate       real not null default 0,
  last_result_id   uuid,
  last_price       numeric,
  last_currency    text,
  last_title       text,
  last_in_stock    boolean,
  last_data        jsonb
) with (fillfactor = 75);

-- One row for each enabled policy that has no active job. The scheduler takes rows from the head; the end
-- of a job puts the row back. So a tick costs what is due, not what waits.
create table policy_due (
  policy_id  uuid primary key,
  due_at     timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index policy_due_at on policy_due (due_at);

-- ── jobs: hot while active, moved to the archive when they end ──────────────────────────────────
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
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
create unique index job_active_one_per_policy on job_active (policy_id);
create index job_active_free on job_active (queue, priority desc, job_id) where place = 'free';
create index job_active_of_host on job_active (host_id, queue, priority desc, job_id) where place in ('free', 'gated');
create index job_active_later on job_active (run_at) where place = 'later';
create index job_active_expiry on job_active (locked_until) where place = 'locked';
create index job_active_held on job_active (queue, host_id) where place = 'locked';

-- A gate stands before the waiting jobs of a host with limits: pulls look at gates that are open, never at
-- the jobs behind closed ones.
create table gate (
  host_id       int not null,
  queue         text not null,
  top_priority  smallint not null,   -- a hint: corrected at every visit, raised by whoever adds work
  open_at       timestamptz not null,
  version       bigint not null default 0, -- changes whenever work is added or a lock of the host ends
  primary key (host_id, queue)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create index gate_open on gate (queue, top_priority desc, open_at);

create table job_archive (
  job_id            uuid not null,
  policy_id         uuid not null,
  host_id           int not null,
  queue             text not null,
  status            text not null check (status in ('done', 'failed', 'expired')),
  priority          smallint not null,
  base_priority     smallint not null,
  retry_count       smallint not null,
  max_retries       smallint not null,
  run_at            timestamptz not null,
  created_at        timestamptz not null,
  created_by        text not null,
  locked_by         text,
  locked_at         timestamptz,
  locked_until      timestamptz,
  lock_ttl_seconds  double precision,
  lock_token        uuid,
  last_error        text,
  last_error_code   text,
  finished_at       timestamptz not null,
  finished_by       text not null,
  reason            text not null,
  result_id         uuid,
  digest            bytea,           -- of the submission that ended it: the same again gets the same answer
  answer            jsonb
) partition by range (finished_at);
create index job_archive_id on job_archive (job_id);
create index job_archive_policy on job_archive (policy_id, job_id);
create index job_archive_unwell on job_archive (job_id) where status <> 'done';

-- The steps that a job's row no longer tells: locks that ended without ending the job, and resets.
-- Creation, the last lock and the end are read from the row itself (view job_timeline).
create table job_step (
  job_id      uuid not null,
  step        bigint generated always as identity,
  from_state  text not null,
  to_state    text not null,
  at          timestamptz not null,
  by          text not null,
  reason      text not null,
  bot_id      text,                  -- whose lock ended
  lock_token  uuid,
  digest      bytea,
  answer      jsonb,
  constraint step_is_drawn check ((from_state, to_state) in (
    ('pending', 'locked'), ('locked', 'pending'), ('locked', 'done'), ('locked', 'failed'), ('locked', 'expired'),
    ('expired', 'pending'), ('failed', 'pending')))
) partition by range (at);
create index job_step_job on job_step (job_id, step);

-- ── results ─────────────────────────────────────────────────────────────────────────────────────
create table result (
  result_id       uuid not null,
  job_id          uuid not null,
  policy_id       uuid not null,
  bot_id          text not null,
  price           numeric,
  currency        text,
  title           text,
  in_stock        boolean,
  parsed_data     jsonb,
  html_hash       text,
  crawl_duration  double precision,
  crawled_at      timestamptz not null
) partition by range (crawled_at);
create index result_id on result (result_id);
create index result_policy on result (policy_id, crawled_at desc);

create table result_html (
  result_id   uuid not null,
  crawled_at  timestamptz not null,
  body        text,                  -- compressed by PostgreSQL
  blob_key    text,                  -- large pages lie in object storage
  check ((body is null) <> (blob_key is null))
) partition by range (crawled_at);
create index result_html_id on result_html (result_id);

create table value_change (
  change_id   bigint generated always as identity primary key,
  policy_id   uuid not null,
  job_id      uuid not null,
  field       text not null,
  old         jsonb,
  new         jsonb,
  at          timestamptz not null
);
create index value_change_policy on value_change (policy_id, change_id desc);

create table late_result (
  late_id      uuid primary key default opilio_uuid7(),
  job_id       uuid not null,
  bot_id       text not null,
  lock_token   uuid,
  reason       text not null,
  submission   jsonb not null,
  digest       bytea not null,
  received_at  timestamptz not null
);
create unique index late_result_once on late_result (job_id, digest);
create index late_result_age on late_result (received_at);

-- ── bots ────────────────────────────────────────────────────────────────────────────────────────
create table bot (
  bot_id        text primary key,
  created_at    timestamptz not null default now(),
  last_seen_at  timestamptz,
  capabilities  text[] not null default '{}'
);
create table bot_token (
  token_id    uuid primary key default opilio_uuid7(),
  bot_id      text not null references bot,
  hash        bytea not null unique,
  created_at  timestamptz not null default now(),
  revoked_at  timestamptz
);
create index bot_token_bot on bot_token (bot_id);
create table bot_activity (
  bot_id            text not null,
  hour              timestamptz not null,
  pulls             bigint not null default 0,
  pulled            bigint not null default 0,
  done              bigint not null default 0,
  failed            bigint not null default 0,
  late              bigint not null default 0,
  duration_seconds  double precision not null default 0,
  primary key (bot_id, hour)
);

-- ── operators ───────────────────────────────────────────────────────────────────────────────────
create table operator (
  operator_id    uuid primary key default opilio_uuid7(),
  name           text not null unique,
  password_hash  text,
  role           text not null check (role in ('viewer', 'operator', 'admin')),
  created_at     timestamptz not null default now(),
  disabled_at    timestamptz
);
create table login_link (
  hash         bytea primary key,
  operator_id  uuid not null references operator on delete cascade,
  expires_at   timestamptz not null,
  used_at      timestamptz
);
create table operator_session (
  hash         bytea primary key,
  operator_id  uuid not null references operator on delete cascade,
  csrf_token   text not null,
  created_at   timestamptz not null default now(),
  seen_at      timestamptz not null default now(),
  expires_at   timestamptz not null
);
create table api_key (
  key_id      uuid primary key default opilio_uuid7(),
  name        text not null,
  hash        bytea not null unique,
  scope       text not null check (scope in ('read', 'write', 'admin')),
  created_at  timestamptz not null default now(),
  revoked_at  timestamptz
);
create table audit_log (
  audit_id  bigint generated always as identity primary key,
  at        timestamptz not null default now(),
  actor     text not null,
  action    text not null,
  subject   text not null,
  details   jsonb not null default '{}'
);
create index audit_log_at on audit_log (at);

-- ── what goes out ───────────────────────────────────────────────────────────────────────────────
-- An event is written in the transaction that caused it; delivery takes it from here.
create table outbox (
  seq          bigint generated always as identity primary key,
  event_id     uuid not null default opilio_uuid7(),
  type         text not null,
  subject      text not null,
  data         jsonb not null,
  occurred_at  timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

-- ── partitions: history is dropped by the day, without a DELETE ─────────────────────────────────
create function opilio_partition(parent text, unit text, at timestamptz) returns text language plpgsql as $$
declare
  first timestamptz := date_trunc(unit, at, 'UTC');
  last timestamptz := (first at time zone 'UTC' + ('1 ' || unit)::interval) at time zone 'UTC';
  child text := parent || to_char(first at time zone 'UTC', '_YYYYMMDD');
  age text := substring(pg_get_partkeydef(parent::regclass) from '\((\w+)\)');
  stored text := (select string_agg(quote_ident(attname), ', ') from pg_attribute
                  where attrelid = parent::regclass and attnum > 0 and not attisdropped and attgenerated = '');
begin
  if to_regclass(child) is not null then
    return child;
  end if;
  -- What was kept aside because nobody had prepared its day moves in, or the day could never be prepared.
  execute format('create table %I (like %I including defaults including constraints including generated)', child, parent);
  execute format('with moved as (delete from %I where %I >= %L and %I < %L returning *) insert into %I (%s) select %s from moved',
                 parent || '_other', age, first, age, last, child, stored, stored);
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, child, first, last);
  return child;
end $$;
-- A row whose day was not prepared is kept all the same.
create table job_archive_other partition of job_archive default;
create table job_step_other partition of job_step default;
create table result_other partition of result default;
create table result_html_other partition of result_html default;
select opilio_partition(parent, unit, now() + n * ('1 ' || unit)::interval)
from (values ('job_archive', 'day'), ('job_step', 'day'), ('result', 'month'), ('result_html', 'day')) t(parent, unit),
     generate_series(0, 3) n;

-- ── one job, whatever table holds it ────────────────────────────────────────────────────────────
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

-- ── for whoever reads the database directly ─────────────────────────────────────────────────────
create view crawl_policy as
  select p.policy_id as id, p.url, s.enabled, p.frequency_hours, p.priority, p.max_retries, p.retry_backoff_minutes,
         p.timeout_minutes, p.job_queue as queue, p.crawl_config, p.rule_set, p.hot, p.labels, s.next_run_at,
         s.last_success_at, s.last_failed_at, s.failure_count, p.created_at, p.updated_at
  from policy p join policy_state s using (policy_id)
  where p.deleted_at is null;
create view crawl_job as
  select j.job_id as id, p.url, j.status, j.locked_by, j.locked_at, j.lock_ttl_seconds, j.policy_id, j.queue, j.priority,
         j.retry_count, j.max_retries, j.run_at, j.last_error, j.created_at, j.finished_at
  from job j join policy p using (policy_id);
create view crawl_result as
  select r.result_id as id, r.job_id, r.policy_id, r.price, r.currency, r.title, r.in_stock, r.parsed_data,
         h.body as raw_html, h.blob_key as raw_html_blob, r.html_hash, r.crawl_duration, r.crawled_at
  from result r left join result_html h on h.result_id = r.result_id and h.crawled_at = r.crawled_at;
