-- name: lock_position
-- One relay at a time. `settled`: whoever might still have filled the noted gaps has ended, and what they committed is
-- seen by the next statement. A number from another server (a restored dump) says nothing: it is noted again.
select p.missed_upto, coalesce(p.missed_xid <= pg_snapshot_xmin(pg_current_snapshot()), false) as settled,
       coalesce(p.missed_xid > pg_snapshot_xmax(pg_current_snapshot()), true) as unnoted,
       (select count(*) from unnest(p.relayed)) > 1 as has_gaps
from relay_position p
for update skip locked;

-- name: log_outbox_events
-- Events in the outbox are those of an older version; they get a place in the log.
with moved as (
  delete from outbox where exchange is null returning seq, event_id, type, subject, data, occurred_at
)
insert into event (event_id, type, subject, data, occurred_at, logged_at)
select event_id, type, subject, data, occurred_at, coalesce(:now::timestamptz, now()) from moved order by seq;

-- name: claim_events
-- The oldest events that were not handed on, and the messages between them. Each gap is looked up by itself, so that
-- what was handed on above an old gap is not read again.
with missing as materialized (
  select lower(m) as first, coalesce(upper(m), 9223372036854775807) as beyond
  from relay_position p cross join lateral unnest('{(,)}'::int8multirange - p.relayed) m
), logged as (
  select v.seq, v.event_id, v.type, v.subject, null as data, v.body, v.logged_at
  from missing m cross join lateral (
    select v.seq, v.event_id, v.type, v.subject, v.body, v.logged_at from event_log v
    where v.seq >= m.first and v.seq < m.beyond and not v.handed_on
    order by v.seq limit :most) v
  order by v.seq limit :most
), message as (
  select seq, event_id, type, subject, data::text as data, exchange, routing_key, headers, correlation_id
  from outbox where exchange is not null order by seq limit :most for update
)
select e.seq, e.event_id, e.type, e.subject, null as data, e.body, e.logged_at, null as exchange, null as routing_key,
       null::jsonb as headers, null as correlation_id from logged e
union all
select m.seq, m.event_id, m.type, m.subject, m.data, null, null, m.exchange, m.routing_key, m.headers, m.correlation_id
from message m
order by seq limit :most;

-- name: save_position
-- Notes what was handed on. Gaps are noted with the number of this transaction: it is higher than that of anybody who
-- took a place before, and is compared when the next relay looks.
with now as (
  select range_agg(int8range(seq, seq, '[]')) as relayed from unnest(:seqs::bigint[]) seq
)
update relay_position p set
  relayed = p.relayed + coalesce(now.relayed, '{}')
            + case when :settle::boolean then int8multirange(int8range(null, p.missed_upto, '(]')) else '{}' end,
  missed_upto = case when :note::boolean then upper(p.relayed) - 1 else p.missed_upto end,
  missed_xid = case when :note::boolean then pg_current_xact_id() else p.missed_xid end
from now;

-- name: delete_outbox
delete from outbox where seq = any(:seqs::bigint[]);

-- name: announce_events
-- Tells whoever tails the log.
select pg_notify('opilio_events', '');

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
  select * from unnest(:event_ids::uuid[], :types::text[], :subjects::text[], :seqs::bigint[], :logged::timestamptz[])
    with ordinality v(event_id, type, subject, seq, logged_at, n)
), wanted as (
  select e.endpoint_id, t.type, g.backfill_seq
  from webhook_endpoint e join webhook_gate g using (endpoint_id), (select distinct type from event) t
  where e.endpoint_id = any(:endpoint_ids::uuid[]) and t.type ~ e.event_regex
)
insert into webhook_delivery (endpoint_id, subject, webhook_id, type, cause, event_logged_at, state, head, next_at, created_at)
select w.endpoint_id, v.subject, v.event_id::text, v.type, 'event', v.logged_at, 'pending',
       row_number() over (partition by w.endpoint_id, v.subject order by v.n) = 1
         and not exists (select 1 from webhook_delivery d
                         where d.endpoint_id = w.endpoint_id and d.subject = v.subject and d.head),
       coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
from event v join wanted w on w.type = v.type and (w.backfill_seq is null or v.seq <= w.backfill_seq)
order by v.n;
