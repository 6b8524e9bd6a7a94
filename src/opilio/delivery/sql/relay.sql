-- name: claim_outbox
-- The oldest rows that no other relay holds. A row waits while an older one of its subject is with another relay,
-- so that subjects keep their order whatever the number of relays.
with mine as materialized (
  select seq, event_id, type, subject, data::text as data, occurred_at, exchange, routing_key, headers, correlation_id
  from outbox order by seq limit :most for update skip locked
), elsewhere as (
  select o.subject, min(o.seq) as seq
  from outbox o
  where o.seq < (select max(seq) from mine) and o.seq not in (select seq from mine)
  group by o.subject
)
select m.* from mine m left join elsewhere e using (subject)
where e.seq is null or m.seq < e.seq
order by m.seq;

-- name: forget_outbox
delete from outbox where seq = any(:seqs::bigint[]);

-- name: log_events
-- Keeps events as they are sent, and tells whoever tails them.
with logged as (
  insert into event_log (seq, event_id, type, subject, occurred_at, body, logged_at)
  select *, :logged_at
  from unnest(:seqs::bigint[], :event_ids::uuid[], :types::text[], :subjects::text[], :times::timestamptz[], :bodies::bytea[])
  returning 1
)
select pg_notify('opilio_events', '') from (select count(*) from logged) done;

-- name: lock_gates_for_types
-- The gates of endpoints that want any of these types, locked in the order of ids.
select g.endpoint_id
from webhook_gate g join webhook_endpoint e using (endpoint_id)
where g.active and e.kind = 'subscription'
  and exists (select 1 from unnest(:types::text[]) t(type) where t.type ~ e.event_regex)
order by g.endpoint_id
for update of g;

-- name: fan_out
-- One delivery for each event and each endpoint that wants it, in the order of the events.
with event as (
  select * from unnest(:event_ids::uuid[], :types::text[], :subjects::text[])
    with ordinality v(event_id, type, subject, n)
), wanted as (
  select e.endpoint_id, t.type
  from webhook_endpoint e, (select distinct type from event) t
  where e.endpoint_id = any(:endpoint_ids::uuid[]) and t.type ~ e.event_regex
)
insert into webhook_delivery (endpoint_id, subject, webhook_id, type, cause, event_logged_at, state, head, next_at, created_at)
select w.endpoint_id, v.subject, v.event_id::text, v.type, 'event', :logged_at, 'pending',
       row_number() over (partition by w.endpoint_id, v.subject order by v.n) = 1
         and not exists (select 1 from webhook_delivery d
                         where d.endpoint_id = w.endpoint_id and d.subject = v.subject and d.head),
       :now, :now
from event v join wanted w on w.type = v.type
order by v.n;

-- name: open_gates
-- Something waits at these gates, and their senders hear of it. The gates are locked by the caller.
with opened as (
  update webhook_gate set due_at = :now
  where endpoint_id = any(:endpoint_ids::uuid[]) and due_at > :now
  returning 1
)
select pg_notify('opilio_webhooks', '') from (select count(*) from opened) done;

-- name: queue_for_broker
-- Hands messages to the publisher; `seq` keeps a row from being queued twice.
with queued as (
  insert into outbound (seq, exchange, routing_key, subject, message_id, correlation_id, headers, body, queued_at)
  select q.seq, q.exchange, q.routing_key, q.subject, q.message_id, q.correlation_id, q.headers::jsonb, q.body, now()
  from unnest(:seqs::bigint[], :exchanges::text[], :routing_keys::text[], :subjects::text[], :message_ids::text[],
              :correlation_ids::text[], :headers::text[], :bodies::bytea[])
    q(seq, exchange, routing_key, subject, message_id, correlation_id, headers, body)
  returning 1
)
select pg_notify('opilio_outbound', '') from (select count(*) from queued) done;

-- name: claim_outbound
-- As claim_outbox: the oldest rows that no other publisher holds, each subject in its order.
with mine as materialized (
  select seq, exchange, routing_key, subject, message_id, correlation_id, headers, body
  from outbound order by seq limit :most for update skip locked
), elsewhere as (
  select o.subject, min(o.seq) as seq
  from outbound o
  where o.seq < (select max(seq) from mine) and o.seq not in (select seq from mine)
  group by o.subject
)
select m.* from mine m left join elsewhere e using (subject)
where e.seq is null or m.seq < e.seq
order by m.seq;

-- name: forget_outbound
delete from outbound where seq = any(:seqs::bigint[]);

-- name: bury_unroutable
insert into dead_letter (queue, source, reason, exchange, routing_key, message_id, correlation_id, headers, body, dead_at)
select :queue, '', 'no queue is bound for it', b.exchange, b.routing_key, b.message_id, b.correlation_id, b.headers::jsonb, b.body, now()
from unnest(:exchanges::text[], :routing_keys::text[], :message_ids::text[], :correlation_ids::text[], :headers::text[],
            :bodies::bytea[]) b(exchange, routing_key, message_id, correlation_id, headers, body);
