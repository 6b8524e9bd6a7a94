alter table analysed_batch drop column content_digest, drop column fetch_error_count;
create table counted_result (
  project_id  text not null,
  identity    text not null,
  primary key (project_id, identity)
);
insert into counted_result (project_id, identity)
select project_id, 'analyze/' || platform || '/' || job_id from batch_result
where job_id <> 'counted before the upgrade'
on conflict do nothing;
insert into counted_result (project_id, identity)
select t.project_id, r.platform || '/' || r.job_id || '/' || r.attempt || '/' || r.cursor
from task_result r join task t using (job_id, platform) where t.project_id is not null and r.counted
on conflict do nothing;
drop table batch_result, task_result;
drop index task_in_flight;
update task set deadline = sent_at + interval '30 minutes' where deadline is null and sent_at is not null;
alter table task drop column crawl_id, drop column trace_id;
alter table project drop column trace_id, add column opened_at timestamptz;
update project set opened_at = created_at;
create index project_unopened on project (created_at) where opened_at is null;
drop index project_state_active;
alter table project_state drop column changed_at, drop column stalled_at;
alter table project_state rename column reported_version to told_version;
