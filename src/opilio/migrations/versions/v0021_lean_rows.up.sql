-- docs/adr/0019-lean-rows.md says why, with figures.

-- A locked job fits into the page that it waited in: its update is logged as a difference, and needs no lock record.
alter table job_active set (fillfactor = 45);

-- Ids as columns take 16 bytes instead of 50 in JSON. Where they are set, `data` holds only what they, the subject
-- and the time do not say; event_data puts the event together again.
alter table event add column job_id uuid, add column policy_id uuid, add column result_id uuid;

create function event_time(at timestamptz) returns text language sql immutable parallel safe as $$
  select replace(to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '.000000', '') || 'Z'
$$;
create function event_data(e event) returns jsonb language sql stable parallel safe as $$
  select case when e.job_id is null then e.data else
    jsonb_build_object('job_id', e.job_id, 'policy_id', e.policy_id, 'result_id', e.result_id, 'url', e.subject,
                       'crawled_at', event_time(e.occurred_at))
    || '{"price": null, "currency": null, "title": null, "in_stock": null, "data": null, "html_hash": null,
         "crawl_duration": null, "changed": [], "not_modified": false}'::jsonb
    || e.data end
$$;
create or replace function event_body(e event) returns bytea language sql stable parallel safe as $$
  select coalesce(e.body, convert_to(
    '{"id":"' || e.event_id || '","source":"opilio","type":' || to_json(e.type) || ',"subject":' || to_json(e.subject)
    || ',"time":"' || event_time(e.occurred_at) || '"'
    || ',"data":' || event_data(e) || ',"specversion":"1.0","datacontenttype":"application/json"}', 'UTF8'))
$$;
create or replace view event_log as
select e.seq, e.event_id, e.type, e.subject, e.occurred_at, e.logged_at, event_body(e) as body, event_data(e) as data from event e;

-- The answer to the submission that ended a job. Where `next_run_at` is set, `answer` lacks what the row says; this
-- version reads such rows, the next one writes them.
alter table job_archive add column next_run_at timestamptz;
create function archived_answer(a job_archive) returns jsonb language sql stable parallel safe as $$
  select case when a.next_run_at is null then a.answer else
    jsonb_build_object('status', a.status, 'job_id', a.job_id, 'result_id', a.result_id,
                       'policy_next_run', event_time(a.next_run_at))
    || a.answer end
$$;
