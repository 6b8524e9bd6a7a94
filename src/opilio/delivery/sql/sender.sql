-- name: claim_batches
-- Leases open gates, longest open first, no more of a host than it has room for, with what is to be sent there:
-- the heads that are due; a single one where the endpoint has been failing.
with open as materialized (
  select endpoint_id, host, open_at from webhook_gate
  where active and open_at <= coalesce(:now::timestamptz, now()) and leased_until <= coalesce(:now::timestamptz, now())
    and host <> all(:full_hosts::text[])
  order by open_at
  limit :most
), placed as (
  select endpoint_id, row_number() over (partition by host order by open_at) as place,
         coalesce((select r.room from unnest(:hosts::text[], :rooms::int[]) r(host, room) where r.host = open.host),
                  :host_room) as room
  from open
), taken as materialized (
  select endpoint_id from webhook_gate
  where endpoint_id in (select endpoint_id from placed where place <= room)
    and active and leased_until <= coalesce(:now::timestamptz, now())
  for update skip locked
), leased as (
  update webhook_gate g
  set lease = :lease, leased_until = coalesce(:now::timestamptz, now()) + make_interval(secs => :lease_seconds)
  from taken where g.endpoint_id = taken.endpoint_id
  returning g.endpoint_id, g.host, g.max_concurrent, g.failures, g.failing_since
)
select l.*, e.url, e.secret,
       case when e.old_secret_until > coalesce(:now::timestamptz, now()) then e.old_secret end as old_secret,
       d.delivery_id, d.subject, d.webhook_id, d.type, d.attempts, coalesce(d.body, v.body) as body, p.trace_id
from leased l
join webhook_endpoint e using (endpoint_id)
left join lateral (
  select delivery_id, subject, webhook_id, type, attempts, body, event_logged_at, next_at
  from webhook_delivery d
  where d.endpoint_id = l.endpoint_id and d.head and d.next_at <= coalesce(:now::timestamptz, now())
  order by d.next_at, d.delivery_id
  limit case when l.failures >= :failures_before_backoff then 1 else :most_of_one end
) d on true
left join lateral (
  select v.body from event_log v where v.logged_at = d.event_logged_at and v.event_id = d.webhook_id::uuid limit 1
) v on d.event_logged_at is not null
left join webhook_progress p on p.subject = d.subject and d.event_logged_at is null
order by l.endpoint_id, d.next_at, d.delivery_id;

-- name: next_open
-- Seconds until a gate opens that nobody holds; null when none will.
select extract(epoch from min(greatest(open_at, leased_until)) - coalesce(:now::timestamptz, clock_timestamp()))::double precision
from webhook_gate where active and open_at < 'infinity' and host <> all(:full_hosts::text[]);

-- name: settle_deliveries
-- Keeps every attempt, moves its delivery on, and puts what is given up among the dead letters. A delivery that was
-- superseded while it was under way ends as such, unless it arrived.
with outcome as (
  select * from unnest(:delivery_ids::bigint[], :attempts::int[], :times::timestamptz[], :statuses::int[],
                       :latencies::double precision[], :outcomes::text[], :errors::text[], :answers::text[],
                       :waits::double precision[])
    o(delivery_id, attempt, at, status, latency_ms, outcome, error, answer, wait)
), kept as (
  insert into webhook_attempt (endpoint_id, delivery_id, webhook_id, type, attempt, at, status, latency_ms, outcome, error, answer)
  select d.endpoint_id, o.delivery_id, d.webhook_id, d.type, o.attempt, o.at, o.status, o.latency_ms, o.outcome, o.error, o.answer
  from outcome o join webhook_delivery d using (delivery_id)
), settled as (
  update webhook_delivery d
  set attempts = o.attempt,
      state = case when o.outcome = 'delivered' then 'delivered'
                   when d.state = 'superseded' then 'superseded'
                   when o.outcome = 'dead' then 'dead' else 'pending' end,
      head = d.head and o.outcome = 'retrying',
      next_at = coalesce(coalesce(:now::timestamptz, now()) + make_interval(secs => o.wait), d.next_at),
      finished_at = case when o.outcome = 'retrying' then d.finished_at else coalesce(:now::timestamptz, now()) end
  from outcome o
  where d.delivery_id = o.delivery_id and d.state in ('pending', 'superseded')
  returning d.delivery_id, d.endpoint_id, d.webhook_id, d.type, d.subject, d.state, d.body, d.event_logged_at, o.error, o.attempt
)
insert into dead_letter (queue, source, reason, routing_key, message_id, headers, body, delivery_id, dead_at)
select 'webhooks.dlq', s.endpoint_id::text, format('%s, the last of %s attempts', s.error, s.attempt), s.type, s.webhook_id,
       jsonb_build_object('webhook-id', s.webhook_id, 'subject', s.subject, 'url', e.url),
       coalesce(s.body, (select v.body from event_log v
                         where v.logged_at = s.event_logged_at and v.event_id = s.webhook_id::uuid limit 1), ''),
       s.delivery_id, coalesce(:now::timestamptz, now())
from settled s join webhook_endpoint e using (endpoint_id)
where s.state = 'dead';

-- name: promote_heads
-- Where the head of a subject is done, the next in line becomes the head. The gates are locked by the caller.
update webhook_delivery set head = true
where delivery_id in (
  select n.delivery_id
  from (select distinct * from unnest(:endpoint_ids::uuid[], :subjects::text[]) l(endpoint_id, subject)) lane
  cross join lateral (
    select d.delivery_id from webhook_delivery d
    where d.endpoint_id = lane.endpoint_id and d.subject = lane.subject and d.state = 'pending' and not d.head
    order by d.delivery_id limit 1
  ) n
  where not exists (select 1 from webhook_delivery h
                    where h.endpoint_id = lane.endpoint_id and h.subject = lane.subject and h.head));

-- name: release_gates
-- Ends batches: the endpoint's health, when it may be visited again, and when there is something to send.
update webhook_gate g
set lease = null, leased_until = '-infinity', failures = v.failures, failing_since = v.failing_since,
    closed_until = case when v.closed_for > 0
                        then coalesce(:now::timestamptz, now()) + make_interval(secs => v.closed_for) else '-infinity' end,
    last_success_at = coalesce(v.success_at, g.last_success_at),
    last_failure_at = coalesce(v.failure_at, g.last_failure_at),
    last_error = case when v.failure_at is null and v.success_at is not null then null else coalesce(v.error, g.last_error) end,
    due_at = coalesce((select min(d.next_at) from webhook_delivery d where d.endpoint_id = g.endpoint_id and d.head), 'infinity')
from unnest(:endpoint_ids::uuid[], :leases::uuid[], :failures::int[], :failing_since::timestamptz[],
            :closed_for::double precision[], :success_at::timestamptz[], :failure_at::timestamptz[], :errors::text[])
  v(endpoint_id, lease, failures, failing_since, closed_for, success_at, failure_at, error)
where g.endpoint_id = v.endpoint_id and g.lease = v.lease;

-- name: switch_off
-- An endpoint that is gone or has failed for too long gets nothing more, and an event says so.
with off as (
  update webhook_endpoint e
  set status = s.status, status_reason = s.reason, status_since = coalesce(:now::timestamptz, now()),
      updated_at = coalesce(:now::timestamptz, now())
  from unnest(:endpoint_ids::uuid[], :statuses::text[], :reasons::text[]) s(endpoint_id, status, reason)
  where e.endpoint_id = s.endpoint_id and e.status = 'active'
  returning e.endpoint_id, e.url, e.status, e.status_reason, e.status_since
), shut as (
  update webhook_gate g
  set active = false, paused_seq = (select upper(r) - 1 from relay_position p cross join lateral unnest(p.relayed) r limit 1)
  from off where g.endpoint_id = off.endpoint_id
), told as (
  insert into event (type, subject, data, occurred_at, logged_at)
  select 'webhook.endpoint.' || status, endpoint_id::text,
         jsonb_build_object('endpoint_id', endpoint_id, 'url', url, 'status', status, 'reason', status_reason,
                            'since', to_char(status_since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')),
         coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
  from off
)
select pg_notify('opilio_outbox', '') from (select count(*) from off) done;
