update job_archive a set answer = archived_answer(a) where a.next_run_at is not null;
drop function archived_answer(job_archive);
alter table job_archive drop column next_run_at;

update event e set data = event_data(e) where e.job_id is not null;
create or replace view event_log as
select e.seq, e.event_id, e.type, e.subject, e.occurred_at, e.logged_at, event_body(e) as body, e.data from event e;
create or replace function event_body(e event) returns bytea language sql stable parallel safe as $$
  select coalesce(e.body, convert_to(
    '{"id":"' || e.event_id || '","source":"opilio","type":' || to_json(e.type) || ',"subject":' || to_json(e.subject)
    || ',"time":"' || replace(to_char(e.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '.000000', '') || 'Z"'
    || ',"data":' || e.data || ',"specversion":"1.0","datacontenttype":"application/json"}', 'UTF8'))
$$;
drop function event_data(event);
drop function event_time(timestamptz);
alter table event drop column job_id, drop column policy_id, drop column result_id;

alter table job_active set (fillfactor = 90);
