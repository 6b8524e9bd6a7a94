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

-- name: delete_outbox
delete from outbox where seq = any(:seqs::bigint[]);

-- name: log_events
-- Keeps events as they are sent, and tells whoever tails them.
with logged as (
  insert into event_log (seq, event_id, type, subject, occurred_at, body, logged_at)
  select *, coalesce(:now::timestamptz, now())
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
-- One delivery for each event and each endpoint that wants it, in the order of the events. While an endpoint is
-- backfilled, events above its backfill position are left to the backfill.
with event as (
  select * from unnest(:event_ids::uuid[], :types::text[], :subjects::text[], :seqs::bigint[])
    with ordinality v(event_id, type, subject, seq, n)
), wanted as (
  select e.endpoint_id, t.type, g.backfill_seq
  from webhook_endpoint e join webhook_gate g using (endpoint_id), (select distinct type from event) t
  where e.endpoint_id = any(:endpoint_ids::uuid[]) and t.type ~ e.event_regex
)
insert into webhook_delivery (endpoint_id, subject, webhook_id, type, cause, event_logged_at, state, head, next_at, created_at)
select w.endpoint_id, v.subject, v.event_id::text, v.type, 'event', coalesce(:now::timestamptz, now()), 'pending',
       row_number() over (partition by w.endpoint_id, v.subject order by v.n) = 1
         and not exists (select 1 from webhook_delivery d
                         where d.endpoint_id = w.endpoint_id and d.subject = v.subject and d.head),
       coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
from event v join wanted w on w.type = v.type and (w.backfill_seq is null or v.seq <= w.backfill_seq)
order by v.n;
