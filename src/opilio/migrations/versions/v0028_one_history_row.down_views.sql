-- Nobody needs the new columns any more: views and functions as they were. This may be run again.
create or replace view job as
  select job_id, policy_id, host_id, queue, case place when 'locked' then 'locked' else 'pending' end as status,
         place, priority, base_priority, retry_count, max_retries, run_at, created_at, created_by,
         locked_by, locked_at, locked_until, lock_ttl_seconds, lock_token, last_error, last_error_code,
         null::timestamptz as finished_at, null::text as finished_by, null::text as reason, null::uuid as result_id,
         null::bytea as digest, null::jsonb as answer
  from job_active
  union all
  select job_id, policy_id, host_id, queue, status,
         null, priority, base_priority, retry_count, max_retries, run_at, created_at, created_by,
         locked_by, locked_at, locked_until, lock_ttl_seconds, lock_token, last_error, last_error_code,
         finished_at, finished_by, reason, result_id, digest, answer
  from job_archive;
create or replace view crawl_result as
  select r.result_id as id, r.job_id, r.policy_id, r.price, r.currency, r.title, r.in_stock, r.parsed_data,
         h.body as raw_html, h.blob_key as raw_html_blob, r.html_hash, r.crawl_duration, r.crawled_at
  from result r left join result_html h on h.result_id = r.result_id and h.crawled_at = r.crawled_at;
drop view if exists stored_result, result_source;

drop view event_waiting;
drop function oldest_event_waiting();
drop view event_log;
drop view if exists event_source;
create view event_log as
select e.seq, e.event_id, e.type, e.subject, e.occurred_at, e.logged_at, event_body(e) as body, event_data(e) as data from event e;
create trigger log_relayed_event instead of insert on event_log for each row execute function log_relayed_event();
create view event_waiting as
select v.* from relay_position p
cross join lateral unnest('{(,)}'::int8multirange - p.relayed) missing
cross join lateral (
  select v.seq, v.event_id, v.type, v.subject, v.occurred_at, v.logged_at, v.body, v.data from event v
  where v.seq >= lower(missing) and v.seq < coalesce(upper(missing), 9223372036854775807)
    and v.data is not null) v;
create function oldest_event_waiting() returns timestamptz language sql stable as $$
  select v.occurred_at from relay_position p
  cross join lateral unnest('{(,)}'::int8multirange - p.relayed) missing
  cross join lateral (
    select v.occurred_at from event v
    where v.seq >= lower(missing) and v.seq < coalesce(upper(missing), 9223372036854775807) and v.data is not null
    order by v.seq limit 1) v
  limit 1
$$;
drop function if exists archived_lock_end(job_archive);
drop function if exists archived_event_body(job_archive);
drop function if exists archived_event_data(job_archive);
create or replace function archived_answer(a job_archive) returns jsonb language sql stable parallel safe as $$
  select case when a.next_run_at is null then a.answer else
    jsonb_build_object('status', a.status, 'job_id', a.job_id, 'result_id', a.result_id,
                       'policy_next_run', event_time(a.next_run_at))
    || a.answer end
$$;
