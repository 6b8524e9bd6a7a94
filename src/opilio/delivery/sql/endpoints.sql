-- name: create_endpoint
-- An endpoint and its gate; a direct one that exists already is answered as it is.
with made as (
  insert into webhook_endpoint (kind, url, events, event_regex, secret, description, status, status_since, created_at, updated_at)
  values (:kind, :url, :events, :event_regex, :secret, :description, 'active', coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
  on conflict (url) where kind = 'direct' do nothing
  returning endpoint_id
), gated as (
  insert into webhook_gate (endpoint_id, active, host, max_concurrent)
  select endpoint_id, true, :host, :max_concurrent from made
)
select endpoint_id from made;

-- name: find_direct
select endpoint_id from webhook_endpoint where kind = 'direct' and url = :url;

-- name: list_endpoints
-- Endpoints with their health, newest first; one of them when an id is given.
select e.endpoint_id, e.kind, e.url, e.events, e.description, e.status, e.status_reason, e.status_since,
       e.created_at, e.updated_at, g.max_concurrent, g.failures, g.failing_since, g.last_success_at, g.last_failure_at,
       g.last_error, case when g.active then nullif(g.open_at, 'infinity') end as next_attempt_at,
       (select count(*) from (select 1 from webhook_delivery d where d.endpoint_id = e.endpoint_id and d.head limit 10000) h)
       + (select count(*) from (select 1 from webhook_delivery d
                                where d.endpoint_id = e.endpoint_id and d.state = 'pending' and not d.head limit 10000) b) as pending
from webhook_endpoint e join webhook_gate g using (endpoint_id)
where (:endpoint_id::uuid is null or e.endpoint_id = :endpoint_id::uuid)
  and (:before::uuid is null or e.endpoint_id < :before::uuid)
order by e.endpoint_id desc
limit :most;

-- name: change_endpoint
-- What is null stays as it is. The gate is locked by the caller.
with before as (
  select endpoint_id, status, status_since from webhook_endpoint where endpoint_id = :endpoint_id for update
), changed as (
  update webhook_endpoint e
  set url = coalesce(:url, e.url), events = coalesce(:events::text[], e.events),
      event_regex = coalesce(:event_regex, e.event_regex), description = coalesce(:description, e.description),
      status = coalesce(:status, e.status),
      status_reason = case when :status::text is null or :status = e.status then e.status_reason else :reason end,
      status_since = case when :status::text is null or :status = e.status then e.status_since else coalesce(:now::timestamptz, now()) end,
      updated_at = coalesce(:now::timestamptz, now())
  from before b where e.endpoint_id = b.endpoint_id
  returning e.endpoint_id, e.status
), gate as (
  -- An address that changed, or an endpoint that is switched on, deserves a fresh start.
  update webhook_gate g
  set active = (c.status = 'active'), host = coalesce(:host, g.host), max_concurrent = coalesce(:max_concurrent, g.max_concurrent),
      failures = case when :fresh then 0 else g.failures end,
      failing_since = case when :fresh then null else g.failing_since end,
      closed_until = case when :fresh then '-infinity' else g.closed_until end,
      backfill_seq = case when c.status = 'disabled' then null else g.backfill_seq end
  from changed c where g.endpoint_id = c.endpoint_id
)
select b.status as old_status, b.status_since as old_since from before b join changed c using (endpoint_id);

-- name: try_waiting_now
-- Deliveries that wait for a retry are tried again at once. The gate is locked by the caller.
update webhook_delivery set next_at = coalesce(:now::timestamptz, now()) where endpoint_id = :endpoint_id and head and next_at > coalesce(:now::timestamptz, now());

-- name: rotate_secret
update webhook_endpoint
set old_secret = secret, old_secret_until = coalesce(:now::timestamptz, now()) + make_interval(secs => :overlap), secret = :secret, updated_at = coalesce(:now::timestamptz, now())
where endpoint_id = :endpoint_id
returning endpoint_id;

-- name: delete_endpoint
-- An endpoint with everything that waits for it; its attempts stay until they are pruned.
with gone as (
  delete from webhook_endpoint where endpoint_id = :endpoint_id returning endpoint_id
), waiting as (
  delete from webhook_delivery d using gone where d.endpoint_id = gone.endpoint_id and d.state = 'pending'
)
select endpoint_id from gone;

-- name: endpoint_to_test
select url, secret, case when old_secret_until > coalesce(:now::timestamptz, now()) then old_secret end as old_secret
from webhook_endpoint where endpoint_id = :endpoint_id;

-- name: record_test
-- A test is a delivery of its own that is never retried.
with delivery as (
  insert into webhook_delivery (endpoint_id, subject, webhook_id, type, cause, body, state, head, attempts, next_at, created_at, finished_at)
  values (:endpoint_id, :subject, :webhook_id, :type, 'test', :body, :state, false, 1, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
  returning delivery_id, endpoint_id, webhook_id, type
)
insert into webhook_attempt (endpoint_id, delivery_id, webhook_id, type, attempt, at, status, latency_ms, outcome, error, answer)
select endpoint_id, delivery_id, webhook_id, type, 1, coalesce(:now::timestamptz, now()), :status::int, :latency_ms, :state, :error, :answer from delivery;

-- name: list_attempts
-- Attempts of an endpoint, newest first.
select attempt_id, delivery_id, webhook_id, type, attempt, at, status, latency_ms, outcome, error, answer
from webhook_attempt
where endpoint_id = :endpoint_id and (:before::uuid is null or attempt_id < :before::uuid)
  and (:webhook_id::text is null or webhook_id = :webhook_id)
order by attempt_id desc
limit :most;

-- name: replay_events
-- Sends logged events again: those named, or all that the endpoint wants in a span of time. What still waits to be
-- sent is not doubled. The gate is locked by the caller.
with chosen as (
  select v.event_id, v.type, v.subject, v.logged_at, v.seq
  from event_log v join webhook_endpoint e on e.endpoint_id = :endpoint_id
  where e.kind = 'subscription' and v.seq <@ (select relayed from relay_position)  -- the rest is sent anyway
    and (:ids::uuid[] is null or v.event_id = any(:ids::uuid[]))
    and (:ids::uuid[] is not null or v.type ~ e.event_regex)
    and (:since::timestamptz is null or (v.logged_at >= :since::timestamptz and v.occurred_at >= :since::timestamptz))
    and (:until::timestamptz is null or v.occurred_at < :until::timestamptz)
    and not exists (select 1 from webhook_delivery d where d.endpoint_id = :endpoint_id and d.subject = v.subject
                      and d.head and d.webhook_id = v.event_id::text)
    and not exists (select 1 from webhook_delivery d where d.endpoint_id = :endpoint_id and d.subject = v.subject
                      and d.state = 'pending' and not d.head and d.webhook_id = v.event_id::text)
)
insert into webhook_delivery (endpoint_id, subject, webhook_id, type, cause, event_logged_at, state, head, next_at, created_at)
select :endpoint_id, c.subject, c.event_id::text, c.type, 'replay', c.logged_at, 'pending',
       row_number() over (partition by c.subject order by c.seq) = 1
         and not exists (select 1 from webhook_delivery d where d.endpoint_id = :endpoint_id and d.subject = c.subject and d.head),
       coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
from chosen c
order by c.seq;

-- name: replay_direct
-- The same for deliveries with a body of their own.
with chosen as (
  select distinct on (d.webhook_id) d.webhook_id, d.type, d.subject, d.body, d.delivery_id
  from webhook_delivery d
  where d.endpoint_id = :endpoint_id and d.cause = 'direct' and d.state <> 'pending'
    and (:ids::uuid[] is null or d.webhook_id = any(:ids::uuid[]::text[]))
    and (:since::timestamptz is null or d.created_at >= :since::timestamptz)
    and (:until::timestamptz is null or d.created_at < :until::timestamptz)
  order by d.webhook_id, d.delivery_id
)
insert into webhook_delivery (endpoint_id, subject, webhook_id, type, cause, body, state, head, next_at, created_at)
select :endpoint_id, c.subject, c.webhook_id, c.type, 'replay', c.body, 'pending',
       row_number() over (partition by c.subject order by c.delivery_id) = 1
         and not exists (select 1 from webhook_delivery d where d.endpoint_id = :endpoint_id and d.subject = c.subject and d.head),
       coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
from chosen c
order by c.delivery_id;
