-- ── counters ─────────────────────────────────────────────────────────────────────────────────────
alter table project_state rename column told_version to reported_version;
alter table project_state add column changed_at timestamptz not null default now(),
                          add column stalled_at timestamptz;   -- since when the analysis is reported as stalled
comment on column project_state.version is 'grows with every change of the counters';
-- A project whose state was only in Redis goes on from what was last reported of it.
insert into project_state (project_id, status, tasks_total, tasks_done, tasks_errors, items_expected, items_actual,
                           items_errors, analyze_total, analyze_done, analyze_errors, crawl_total, version, reported_version)
select p.project_id, p.status, p.tasks_total,
       coalesce((p.snapshot ->> 'tasks_done')::bigint, 0), coalesce((p.snapshot ->> 'tasks_errors')::bigint, 0),
       p.tasks_total::bigint * p.limit_per_keyword,
       coalesce((p.snapshot ->> 'items_actual')::bigint, 0), coalesce((p.snapshot ->> 'items_errors')::bigint, 0),
       coalesce((p.snapshot ->> 'analyze_total')::bigint, 0), coalesce((p.snapshot ->> 'analyze_done')::bigint, 0),
       coalesce((p.snapshot ->> 'analyze_errors')::bigint, 0), p.tasks_total, p.snapshot_version, p.snapshot_version
from project p
on conflict do nothing;
create index project_state_active on project_state (changed_at) where status <> 'DONE';
drop index project_unopened;
alter table project drop column opened_at, add column trace_id text;

-- ── tasks ────────────────────────────────────────────────────────────────────────────────────────
alter table task add column crawl_id text,                 -- the run of the crawler whose result is counted
                 add column trace_id text;
comment on column task.deadline is 'null while the task may still wait in its queue';
update task set successful = 0, failed = 0, skipped = 0 where state = 'open';
create index task_in_flight on task (platform, sent_at) where state = 'open' and sent_at is not null;

-- Every result that was received for a task, by its identity.
create table task_result (
  job_id       text not null,
  platform     text not null,
  attempt      smallint not null,
  cursor       text not null,
  success      boolean not null,
  usable       boolean not null,                -- a success, or a partial failure that is kept
  successful   int not null,
  failed       int not null,
  skipped      int not null,
  counted      boolean not null,                -- whether its items are in the counters
  digests      text[] not null,                 -- of the bodies seen
  received_at  timestamptz not null,
  primary key (job_id, platform, attempt, cursor),
  foreign key (job_id, platform) references task on delete cascade
);
insert into task_result (job_id, platform, attempt, cursor, success, usable, successful, failed, skipped, counted,
                         digests, received_at)
select job_id, platform, coalesce(items_attempt, attempt), '', state = 'done', state = 'done' or successful > 0,
       successful, failed, skipped, true, '{}', finished_at
from task where state <> 'open';

-- ── analysed batches ─────────────────────────────────────────────────────────────────────────────
-- Every analyze_result that was received, by its identity.
create table batch_result (
  project_id         text not null references project on delete cascade,
  platform           text not null,              -- '' where analytics does not name it
  job_id             text not null,              -- "<job of the task>-analyze-batch-<n>"
  crawl_id           text not null default '',   -- the run of the crawler that stored the batch; '' where unknown
  copy               smallint not null default 0, -- 1, 2, …: further messages of one name without a platform
  task_job_id        text not null,
  success_count      int not null,
  error_count        int not null,
  fetch_error_count  int not null default 0,
  size_known         boolean not null default true,
  counted            boolean not null,
  digests            text[] not null,
  received_at        timestamptz not null,
  primary key (project_id, platform, job_id, crawl_id, copy)
);
create index batch_result_task on batch_result (project_id, task_job_id, platform);
-- What was counted before there was a row for each batch: its sum, and the identities without figures.
insert into batch_result (project_id, platform, job_id, task_job_id, success_count, error_count, counted, digests, received_at)
select s.project_id, '', 'counted before the upgrade', '', s.analyze_done, s.analyze_errors, true, '{*}', now()
from project_state s join project p using (project_id) where s.analyze_done + s.analyze_errors > 0;
insert into batch_result (project_id, platform, job_id, task_job_id, success_count, error_count, counted, digests, received_at)
select c.project_id, split_part(c.identity, '/', 2), substring(c.identity from '^analyze/[^/]*/(.*)$'),
       regexp_replace(substring(c.identity from '^analyze/[^/]*/(.*)$'), '-analyze-batch-[^-]+$', ''), 0, 0, false, '{*}', now()
from counted_result c join project p using (project_id)
where c.identity like 'analyze/%/%'
on conflict do nothing;
drop table counted_result;

-- ── analytics ────────────────────────────────────────────────────────────────────────────────────
alter table analysed_batch add column content_digest text not null default '',   -- of the body, '' where unknown
                           add column fetch_error_count int not null default 0;
