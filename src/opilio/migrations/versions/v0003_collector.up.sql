-- Keyword projects. docs/explanation/project-lifecycle.md follows a project through these tables.

create table project (
  project_id           text primary key,
  brand_name           text,
  brand_keywords       text[] not null,
  competitor_keywords  jsonb not null,           -- as given: a list, or lists by name
  platforms            text[] not null,
  limit_per_keyword    int not null check (limit_per_keyword > 0),
  time_range           int,
  webhook_url          text,
  tasks_total          int not null check (tasks_total > 0),
  definition           bytea not null,           -- digest: tells the same project sent again from another one
  created_at           timestamptz not null,
  created_by           text not null,
  opened_at            timestamptz,              -- its state exists: its tasks may go out
  -- what was last told of the state, which itself lives in Redis or in project_state
  status               text not null default 'PENDING' check (status in ('PENDING', 'PROCESSING', 'DONE')),
  snapshot             jsonb not null,
  snapshot_version     bigint not null default 0,
  finished_at          timestamptz
) with (fillfactor = 80);
create index project_recent on project (created_at desc, project_id desc);
create index project_unopened on project (created_at) where opened_at is null;

-- A task is recorded before it is sent, and is its own outbox row: open and unsent means that it has to go out.
create table task (
  platform         text not null,
  job_id           text not null,
  project_id       text references project on delete cascade,   -- none: a dry run, or a request on its own
  task_type        text not null,
  body             json not null,            -- as it goes out, but for the attempt
  attempt          smallint not null,
  max_attempts     smallint not null,
  state            text not null default 'open' check (state in ('open', 'done', 'failed')),
  created_at       timestamptz not null,
  send_at          timestamptz not null,     -- not to be handed to the bus before
  ready_at         timestamptz not null,     -- when crawlers get it: a retry waits in a delay queue
  sent_at          timestamptz,
  deadline         timestamptz,              -- the crawler's silence is a failure after this
  finished_at      timestamptz,
  settled_by       text,                     -- identity of the result that was the last word
  items_attempt    smallint,                 -- whose items are counted
  retried_for      text,                     -- identity of the failure that caused the latest retry
  error_code       text,
  error_message    text,
  successful       int not null default 0,
  failed           int not null default 0,
  skipped          int not null default 0,
  total_found      int,
  platform_limited boolean not null default false,
  primary key (job_id, platform),
  check ((state = 'open') = (finished_at is null))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index task_unsent on task (send_at) where state = 'open' and sent_at is null;
create index task_deadline on task (deadline) where state = 'open' and sent_at is not null;
create index task_project on task (project_id, created_at, job_id, platform) where project_id is not null;

create table project_warning (
  project_id  text not null references project on delete cascade,
  platform    text not null,
  job_id      text not null,
  kind        text not null,
  message     text not null,
  at          timestamptz not null,
  primary key (project_id, platform, job_id, kind)
);

-- ── project state, where there is no Redis ──────────────────────────────────────────────────────
create table project_state (
  project_id      text primary key,
  status          text not null check (status in ('PENDING', 'PROCESSING', 'DONE')),
  tasks_total     bigint not null,
  tasks_done      bigint not null default 0,
  tasks_errors    bigint not null default 0,
  items_expected  bigint not null,
  items_actual    bigint not null default 0,
  items_errors    bigint not null default 0,
  analyze_total   bigint not null default 0,
  analyze_done    bigint not null default 0,
  analyze_errors  bigint not null default 0,
  crawl_total     bigint not null,
  crawl_done      bigint generated always as (items_actual) stored,
  crawl_errors    bigint generated always as (items_errors) stored,
  version         bigint not null default 0,   -- how many results were counted
  told_version    bigint not null default 0    -- how many of them the project's snapshot knows of
) with (fillfactor = 70);
create index project_state_changed on project_state (project_id) where version > told_version;

-- Results that were counted: each of them once.
create table counted_result (
  project_id  text not null,
  identity    text not null,
  primary key (project_id, identity)
);
