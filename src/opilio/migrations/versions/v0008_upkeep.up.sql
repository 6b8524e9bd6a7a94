-- What was counted for a finished project is dropped some day; its figures stay.
alter table project add column forgotten boolean not null default false;
create index project_finished on project (finished_at) where finished_at is not null and not forgotten;

-- The list by priority; the URL has its own index, and policies change rarely.
create index policy_by_priority on policy (priority desc, policy_id desc) where deleted_at is null;
