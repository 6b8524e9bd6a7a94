alter table webhook_progress add column trace_id text;
