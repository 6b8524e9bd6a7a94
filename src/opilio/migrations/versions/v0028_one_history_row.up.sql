-- docs/adr/0025-one-history-row.md says why. The row of a job that is done may also be its result and its event. Where it is, `outcome_id`
-- is the id of both, and `result_id` is null. Every statement may be run again, because the indexes are made in steps.
alter table job_archive
  add column if not exists seq bigint,          -- the place of the event in the log
  add column if not exists crawl_duration double precision,
  add column if not exists outcome_id uuid,
  add column if not exists subject text,        -- its URL, as it was
  add column if not exists changed jsonb,       -- a list of the fields whose value changed; null if none
  add column if not exists price numeric,
  add column if not exists currency text,
  add column if not exists title text,
  add column if not exists in_stock boolean,
  add column if not exists parsed_data jsonb,
  add column if not exists html_hash text;
-- Such a row lacks what others say: it ran when it was created, by the scheduler; its lock was not renewed; its bot brought the result.
alter table job_archive
  alter column run_at drop not null, alter column created_by drop not null, alter column finished_by drop not null, alter column reason drop not null;
create or replace function archived_lock_end(a job_archive) returns timestamptz language sql stable parallel safe as $$
  select coalesce(a.locked_until, a.locked_at + make_interval(secs => a.lock_ttl_seconds))
$$;
