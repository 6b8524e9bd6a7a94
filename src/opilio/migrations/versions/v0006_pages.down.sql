drop index job_archive_bot;
drop index webhook_delivery_told;
drop index project_open;
