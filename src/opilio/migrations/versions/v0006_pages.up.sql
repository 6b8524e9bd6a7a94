-- Every live look counts the projects that are not done: a handful among all that ever were.
create index project_open on project (project_id) where status <> 'DONE';

-- What was told of one project, among all that the same address is told.
create index webhook_delivery_told on webhook_delivery (subject, delivery_id) where cause = 'direct';

-- The jobs of one bot: without it, those of a bot that has done little are looked for among all.
create index job_archive_bot on job_archive (locked_by, job_id);
