alter table webhook_progress drop column trace_id;
