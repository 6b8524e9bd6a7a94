-- name: begin_backfill
-- Events logged since a time, and those that were not handed on when the endpoint was paused, are queued in steps,
-- from the first of them on. The gate is locked by the caller.
update webhook_gate g
set backfill_seq = least(g.backfill_seq, g.paused_seq,
                         coalesce((select min(v.seq) - 1 from event_log v where v.logged_at >= :since),
                                  (select max(upper(r)) - 1 from relay_position p cross join lateral unnest(p.relayed) r))),
    paused_seq = null
where g.endpoint_id = :endpoint_id;

-- name: claim_backfill
-- One endpoint that is being backfilled, locked.
select endpoint_id, backfill_seq from webhook_gate
where backfill_seq is not null and active
order by endpoint_id
limit 1
for update skip locked;

-- name: backfill_step
-- Queues the next events that the endpoint wants, and moves its position on; a null position ends the backfill.
-- What still waits to be sent is not doubled. The gate is locked by the caller.
with next as (
  select v.event_id, v.type, v.subject, v.logged_at, v.seq
  from event_log v
  where v.seq > :backfill_seq and v.seq <@ (select relayed from relay_position)  -- the rest is the relay's
  order by v.seq
  limit :most
), chosen as (
  select n.* from next n join webhook_endpoint e on e.endpoint_id = :endpoint_id
  where n.type ~ e.event_regex
    and not exists (select 1 from webhook_delivery d where d.endpoint_id = :endpoint_id and d.subject = n.subject
                      and d.head and d.webhook_id = n.event_id::text)
    and not exists (select 1 from webhook_delivery d where d.endpoint_id = :endpoint_id and d.subject = n.subject
                      and d.state = 'pending' and not d.head and d.webhook_id = n.event_id::text)
), queued as (
  insert into webhook_delivery (endpoint_id, subject, webhook_id, type, cause, event_logged_at, state, head, next_at, created_at)
  select :endpoint_id, c.subject, c.event_id::text, c.type, 'replay', c.logged_at, 'pending',
         row_number() over (partition by c.subject order by c.seq) = 1
           and not exists (select 1 from webhook_delivery d where d.endpoint_id = :endpoint_id and d.subject = c.subject and d.head),
         coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
  from chosen c
  order by c.seq
  returning 1
), moved as (
  update webhook_gate set backfill_seq = (select max(seq) from next) where endpoint_id = :endpoint_id
)
select (select count(*) from next) as looked_at, (select count(*) from queued) as queued;
