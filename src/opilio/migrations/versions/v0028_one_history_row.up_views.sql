-- Second step: what reads both. The parts of a union have no conditions of their own, or PostgreSQL could not read them in the order of their
-- indexes: `event_source` and `result_source` have a row for each archived job, which `event_log` and `stored_result` leave out.
create or replace function archived_answer(a job_archive) returns jsonb language sql stable parallel safe as $$
  select case when a.next_run_at is null then a.answer else
    jsonb_build_object('status', a.status, 'job_id', a.job_id, 'result_id', coalesce(a.outcome_id, a.result_id),
                       'policy_next_run', event_time(a.next_run_at))
    || case when a.outcome_id is null then '{}' else jsonb_build_object('price', a.price, 'currency', a.currency) end
    || coalesce(a.answer, '{}') end
$$;
create function archived_event_data(a job_archive) returns jsonb language sql stable parallel safe as $$
  select jsonb_build_object(
    'job_id', a.job_id, 'policy_id', a.policy_id, 'result_id', a.outcome_id, 'url', a.subject, 'price', a.price, 'currency', a.currency,
    'title', a.title, 'in_stock', a.in_stock, 'data', nullif(a.parsed_data, '{}'), 'html_hash', a.html_hash,
    'crawl_duration', a.crawl_duration, 'crawled_at', event_time(a.finished_at), 'bot_id', a.locked_by,
    'changed', coalesce(a.changed, '[]'), 'not_modified', false)
$$;
create function archived_event_body(a job_archive) returns bytea language sql stable parallel safe as $$
  select convert_to(
    '{"id":"' || a.outcome_id || '","source":"opilio","type":"crawl.job.completed","subject":' || to_json(a.subject)
    || ',"time":"' || event_time(a.finished_at) || '","data":' || archived_event_data(a)
    || ',"specversion":"1.0","datacontenttype":"application/json"}', 'UTF8')
$$;
create view event_source as
select e.seq, e.event_id, e.type, e.subject, e.occurred_at, e.logged_at, event_body(e) as body, event_data(e) as data,
       e.data is null as handed_on  -- an older version logs what it has handed on
from event e
union all
select a.seq, a.outcome_id, 'crawl.job.completed', a.subject, a.finished_at, a.finished_at, archived_event_body(a), archived_event_data(a),
       false
from job_archive a;
drop view event_waiting;  -- before what it reads, as for everybody who reads it
create or replace view event_log as
select seq, event_id, type, subject, occurred_at, logged_at, body, data, handed_on from event_source where seq is not null;

create view event_waiting as
select v.seq, v.occurred_at from relay_position p
cross join lateral unnest('{(,)}'::int8multirange - p.relayed) missing
cross join lateral (
  select v.seq, v.occurred_at from event_log v
  where v.seq >= lower(missing) and v.seq < coalesce(upper(missing), 9223372036854775807) and not v.handed_on) v;
create or replace function oldest_event_waiting() returns timestamptz language sql stable as $$
  select v.occurred_at from relay_position p
  cross join lateral unnest('{(,)}'::int8multirange - p.relayed) missing
  cross join lateral (
    select v.occurred_at from event_log v
    where v.seq >= lower(missing) and v.seq < coalesce(upper(missing), 9223372036854775807) and not v.handed_on
    order by v.seq limit 1) v
  limit 1
$$;

create view result_source as
select result_id, job_id, policy_id, bot_id, price, currency, title, in_stock, parsed_data, html_hash, crawl_duration, crawled_at from result
union all
select outcome_id, job_id, policy_id, locked_by, price, currency, title, in_stock, parsed_data, html_hash, crawl_duration, finished_at
from job_archive;
create view stored_result as
select result_id, job_id, policy_id, bot_id, price, currency, title, in_stock, parsed_data, html_hash, crawl_duration, crawled_at
from result_source where result_id is not null;
create or replace view crawl_result as
  select r.result_id as id, r.job_id, r.policy_id, r.price, r.currency, r.title, r.in_stock, r.parsed_data,
         h.body as raw_html, h.blob_key as raw_html_blob, r.html_hash, r.crawl_duration, r.crawled_at
  from stored_result r left join result_html h on h.result_id = r.result_id and h.crawled_at = r.crawled_at;
create or replace view job as
  select job_id, policy_id, host_id, queue, case place when 'locked' then 'locked' else 'pending' end as status,
         place, priority, base_priority, retry_count, max_retries, run_at, created_at, created_by,
         locked_by, locked_at, locked_until, lock_ttl_seconds, lock_token, last_error, last_error_code,
         null::timestamptz as finished_at, null::text as finished_by, null::text as reason, null::uuid as result_id,
         null::bytea as digest, null::jsonb as answer
  from job_active
  union all
  select a.job_id, a.policy_id, a.host_id, a.queue, a.status,
         null, a.priority, a.base_priority, a.retry_count, a.max_retries, coalesce(a.run_at, a.created_at), a.created_at,
         coalesce(a.created_by, 'scheduler'), a.locked_by, a.locked_at, archived_lock_end(a), a.lock_ttl_seconds, a.lock_token,
         a.last_error, a.last_error_code, a.finished_at, coalesce(a.finished_by, 'bot:' || a.locked_by), coalesce(a.reason, 'result accepted'),
         coalesce(a.outcome_id, a.result_id), a.digest, a.answer
  from job_archive a;
