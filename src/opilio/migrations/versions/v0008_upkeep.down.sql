drop index policy_by_priority;
drop index project_finished;
alter table project drop column forgotten;
