-- name: finish_jobs
-- Ends jobs: the policy is due again, job archived, result and its changes stored, event written: all or nothing. A job with a result is one row, which is
-- also its result and its event; the views result_source and event_source show them. Fails where a row is not as it was read; or, of jobs that
-- are known since they were locked, where something beside the row is not as known_locks.py takes it to be. Jobs with a result and without a
-- page or a new value need none of the rare parts, and no values if all of them found what the crawl before them found; a job whose state is not said is
-- done; a batch without adaptive policies needs none of theirs.
with input as materialized (
  select *
    -- [no values
    , null::numeric as price, null::text as currency, null::text as title, null::boolean as in_stock, null::text as data
    -- no values]
    -- [no rare
    , null::text as state, null::text as error, null::text as error_code, 0 as failure_count, null::text as answer
    -- no rare]
    -- [no adaptive
    , null::text as pool, null::timestamptz as early_at
    -- no adaptive]
  from json_to_recordset(:jobs::json) as i(
    row_at tid, version xid, job_id uuid, next_run float8, error_rate real, result_id uuid, as_before boolean,
    html_hash text, duration float8, digest text, subject text, etag text, last_modified text, looked_up boolean
    -- [values
    , price numeric, currency text, title text, in_stock boolean, data text, last_data text
    -- values]
    -- [rare
    , state text, by text, reason text, error text, error_code text, failure_count int, answer text, changed text,
    siblings boolean, event_type text, event text, first_values text, new_values text
    -- rare]
    -- [adaptive
    , pool text, early_at timestamptz, rate_shape float8, rate_days float8, daily_hours text, interval_days float8, price_used float8,
    visits int, changes_seen int, surprise real, gap_days real
    -- adaptive]
    )),
clock as (select coalesce(:now::timestamptz, now()) as at),
archived as (
  insert into job_archive (job_id, policy_id, host_id, queue, status, priority, base_priority, retry_count, max_retries,
    run_at, created_at, created_by, locked_by, locked_at, locked_until, lock_ttl_seconds, lock_token, last_error,
    last_error_code, finished_at, finished_by, reason, digest, answer, next_run_at,
    outcome_id, seq, subject, changed, price, currency, title, in_stock, parsed_data, html_hash, crawl_duration)
  select g.job_id, g.policy_id, g.host_id, g.queue, coalesce(i.state, 'done'), g.priority, g.base_priority, g.retry_count, g.max_retries,
    -- What is the usual of a job with a result is not kept.
    nullif(g.run_at, case when i.result_id is not null then g.created_at end), g.created_at,
    nullif(g.created_by, case when i.result_id is not null then 'scheduler' end), g.locked_by, g.locked_at,
    nullif(g.locked_until, case when i.result_id is not null then g.locked_at + make_interval(secs => g.lock_ttl_seconds) end),
    g.lock_ttl_seconds, g.lock_token, coalesce(i.error, g.last_error), coalesce(i.error_code, g.last_error_code), (select at from clock),
    -- [no rare
    null, null,
    -- no rare]
    -- [rare
    nullif(i.by, case when i.result_id is not null then 'bot:' || g.locked_by end),
    nullif(i.reason, case when i.result_id is not null then 'result accepted' end),
    -- rare]
    decode(i.digest, 'base64'), i.answer::jsonb, case when i.state is null then to_timestamp(i.next_run) end,  -- archived_answer says it again
    -- A transaction has its number before it takes its place in the log.
    i.result_id, case when i.result_id is not null and pg_current_xact_id() is not null then nextval('outbox_seq_seq') end,
    case when i.result_id is not null then i.subject end,
    -- [no rare
    null,
    -- no rare]
    -- [rare
    case when i.result_id is not null then i.changed::jsonb end,
    -- rare]
    case when i.as_before then g.last_price else i.price end, case when i.as_before then g.last_currency else i.currency end,
    case when i.as_before then g.last_title else i.title end, case when i.as_before then g.last_in_stock else i.in_stock end,
    i.data::jsonb, case when i.result_id is not null then i.html_hash end, i.duration
  from input i
  join crawl_state g on g.ctid = i.row_at and g.xmin = i.version and g.job_id = i.job_id),  -- the job as it ends
ended as (
  update crawl_state s set
    place = case when s.enabled then 'due' end, job_id = null, run_at = null, created_at = null,
    locked_by = null, locked_at = null, locked_until = null, lock_ttl_seconds = null, lock_token = null,
    last_error = null, last_error_code = null, due_pool = i.pool, early_at = i.early_at,
    next_run_at = to_timestamp(i.next_run), failure_count = coalesce(i.failure_count, 0), error_rate = coalesce(i.error_rate, 0),
    last_success_at = case when i.state is null then (select at from clock) else s.last_success_at end,
    last_failed_at = case when i.state is not null then (select at from clock) else s.last_failed_at end,
    last_result_id = coalesce(i.result_id, s.last_result_id),
    -- [values
    last_price = coalesce(i.price, s.last_price), last_currency = coalesce(i.currency, s.last_currency),
    last_title = coalesce(i.title, s.last_title), last_in_stock = coalesce(i.in_stock, s.last_in_stock),
    last_data = coalesce(i.last_data::jsonb, s.last_data),
    -- values]
    last_html_hash = coalesce(i.html_hash, s.last_html_hash),
    etag = coalesce(i.etag, s.etag), last_modified = coalesce(i.last_modified, s.last_modified)
    -- [adaptive
    , rate_shape = coalesce(i.rate_shape, s.rate_shape), rate_days = coalesce(i.rate_days, s.rate_days),
    daily_hours = coalesce(decode(i.daily_hours, 'base64'), s.daily_hours), interval_days = coalesce(i.interval_days, s.interval_days),
    price_used = coalesce(i.price_used, s.price_used), visits = s.visits + coalesce(i.visits, 0),
    changes_seen = s.changes_seen + coalesce(i.changes_seen, 0),
    surprise = coalesce(i.surprise, s.surprise), gap_days = coalesce(i.gap_days, s.gap_days)
    -- adaptive]
  from input i
  where s.ctid = i.row_at and s.xmin = i.version and s.job_id = i.job_id and (
    i.looked_up or (
      not ((select exists (select 1 from host where strikes > 0)) and exists (select 1 from host h where h.host_id = s.host_id and h.strikes > 0))
      and (:alerts_known::boolean or not (select exists (select 1 from value_alert where enabled)))
      and not ((select exists (select 1 from gate)) and exists (select 1 from gate g where g.host_id = s.host_id))))
  returning 1)
-- [rare
, pages as (
  insert into result_html (result_id, crawled_at, body, blob_key)
  select p.result_id, clock.at, p.body, p.blob from clock
  cross join unnest(:page_ids::uuid[], :page_bodies::text[], :page_blobs::text[]) p(result_id, body, blob)),
siblings as (  -- looked at by the scheduler
  insert into sibling_change (host_id, folder)
  select distinct g.host_id, opilio_folder(i.subject) from input i join crawl_state g on g.ctid = i.row_at
  where i.siblings),
first_seen as (  -- the value history: what a crawl saw for the first time, one row a crawl; the view value_change shows a row each
  insert into first_values (policy_id, job_id, seen, at)
  select g.policy_id, g.job_id, i.first_values::jsonb, clock.at
  from input i cross join clock join crawl_state g on g.ctid = i.row_at where i.first_values is not null),
replaced as (  -- and values that replaced another
  insert into changed_value (policy_id, job_id, field, old, new, at)
  select g.policy_id, g.job_id, c.value ->> 0, c.value -> 1, c.value -> 2, clock.at
  from input i cross join clock join crawl_state g on g.ctid = i.row_at cross join lateral jsonb_array_elements(i.new_values::jsonb) c
  where i.new_values is not null),
told as (  -- event_data puts what was split back together
  insert into event (type, subject, data, occurred_at, logged_at, job_id, policy_id, result_id)
  select i.event_type, i.subject, i.event::jsonb, clock.at, clock.at, split.job_id, split.policy_id, split.result_id
  from input i cross join clock join crawl_state g on g.ctid = i.row_at
  left join lateral (select g.job_id, g.policy_id, i.result_id) split on i.event_type = 'crawl.job.completed'
  where i.result_id is null)
-- rare]
select 1 / (count(*) = (select count(*) from input))::int,  -- a division by zero undoes all of it
       pg_notify('opilio_outbox', '') from ended;  -- one word a batch: the relay need not poll

-- name: return_jobs
-- Gives locked jobs back to the queue, now or later, if their rows are still as they were read; ready_jobs readies them when their time has come.
update crawl_state j set
  place = 'later', priority = i.priority, retry_count = i.retry_count,
  host_id = p.host_id, queue = p.job_queue,  -- the policy may have moved while the job was out
  run_at = case when j.enabled then i.run_at else 'infinity' end,  -- nobody gets the job of a policy that is off
  last_error = coalesce(i.error, j.last_error), last_error_code = coalesce(i.error_code, j.last_error_code),
  locked_by = null, locked_at = null, locked_until = null, lock_ttl_seconds = null, lock_token = null
from unnest(:job_ids::uuid[], :priorities::int[], :retry_counts::int[], :run_ats::timestamptz[], :errors::text[],
            :error_codes::text[], :versions::text[]) i(job_id, priority, retry_count, run_at, error, error_code, version)
cross join policy p
where j.job_id = i.job_id and p.policy_id = j.policy_id and j.xmin::text = i.version;

-- name: add_steps
-- Keeps the steps that the job's row is about to forget.
insert into job_step (job_id, from_state, to_state, at, by, reason, bot_id, lock_token, digest, answer)
select * from unnest(:job_ids::uuid[], :from_states::text[], :to_states::text[], :ats::timestamptz[], :by::text[],
  :reasons::text[], :bots::text[], :tokens::uuid[], :digests::bytea[], :answers::jsonb[]);

-- name: keep_late
-- Results that were refused as late, once each.
insert into late_result (job_id, bot_id, lock_token, reason, submission, digest, received_at)
select * from unnest(:job_ids::uuid[], :bots::text[], :tokens::uuid[], :reasons::text[], :submissions::jsonb[],
  :digests::bytea[], :ats::timestamptz[])
on conflict (job_id, digest) do nothing;

-- name: cool_hosts
-- Hosts that answered 429 or 503: closed for everyone, from this transaction on, and never for less than before.
-- Strikes that were forgiven stay forgiven; of several bots that report at once the highest count is kept.
with ordered as materialized (
  select h.host_id from host h where h.host_id = any(:host_ids::int[]) order by h.host_id for no key update)
update host h set cooling_until = greatest(h.cooling_until, c.until),
  strikes = case when h.cooling_until < :forgiven_before::timestamptz then c.strikes else greatest(h.strikes, c.strikes) end,
  cooling_reason = c.reason, gated = true
from ordered o
cross join unnest(:host_ids::int[], :untils::timestamptz[], :strikes::int[], :reasons::text[]) c(host_id, until, strikes, reason)
where h.host_id = o.host_id and c.host_id = o.host_id;

-- name: keep_cooling
-- The periods in which hosts were cooling: one that is extended stays one. Reads what cool_hosts wrote, under its locks.
with extended as (
  update host_cooling p set until = greatest(p.until, h.cooling_until), reason = h.cooling_reason
  from host h
  where h.host_id = any(:host_ids::int[]) and p.host_id = h.host_id and p.until > :now::timestamptz
  returning p.host_id)
insert into host_cooling (host_id, began_at, until, reason)
select h.host_id, :now::timestamptz, h.cooling_until, h.cooling_reason from host h
where h.host_id = any(:host_ids::int[]) and h.cooling_until > :now::timestamptz
  and h.host_id not in (select e.host_id from extended e)
on conflict (host_id, began_at) do nothing;

-- name: close_cooling_gates
-- Gates of hosts that were just cooled, locked in the order that every statement locks gates in.
with ordered as materialized (
  select g.host_id, g.queue from gate g where g.host_id = any(:host_ids::int[]) order by g.host_id, g.queue for update)
update gate g set open_at = greatest(g.open_at, h.cooling_until)
from ordered o join host h on h.host_id = o.host_id
where g.host_id = o.host_id and g.queue = o.queue;

-- name: forgive_hosts
-- A success forgives the earlier strikes of a host.
with ordered as materialized (
  select h.host_id from host h where h.host_id = any(:host_ids::int[]) and h.strikes > 0 order by h.host_id for no key update)
update host h set strikes = 0 from ordered o where h.host_id = o.host_id;

-- name: reopen_gates
-- Locks of these hosts ended: whoever was at its cap may be visited again. The new version tells a pull that is
-- about to close the gate that it counted too many locks.
with ordered as materialized (
  select g.host_id, g.queue from gate g where g.host_id = any(:host_ids::int[]) order by g.host_id, g.queue for update)
update gate g set
  open_at = least(g.open_at, greatest(h.cooling_until, h.next_at, coalesce(:now::timestamptz, now()))), version = g.version + 1
from ordered o join host h on h.host_id = o.host_id
where g.host_id = o.host_id and g.queue = o.queue;
