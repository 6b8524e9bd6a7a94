-- name: bus_declare_queues
-- The queues of a topology; existing ones stay as they are.
insert into bus_queue (queue) select * from unnest(:queues::text[]) on conflict (queue) do nothing;

-- name: bus_delete_bindings
-- Bindings of the topology's queues that the topology no longer has.
delete from bus_binding b
where b.queue = any(:queues::text[])
  and not exists (
    select 1 from unnest(:exchanges::text[], :patterns::text[], :bound::text[]) k(exchange, pattern, queue)
    where (k.exchange, k.pattern, k.queue) = (b.exchange, b.pattern, b.queue));

-- name: bus_declare_bindings
insert into bus_binding (exchange, pattern, queue, regex)
select * from unnest(:exchanges::text[], :patterns::text[], :bound::text[], :regexes::text[])
on conflict do nothing;

-- name: bus_publish
-- Puts each message into every queue that is bound for it, once, and answers how many those were. The exchange ''
-- names a queue.
with sent as (
  select * from unnest(:exchanges::text[], :routing_keys::text[], :bodies::bytea[], :headers::text[],
                       :message_ids::text[], :correlation_ids::text[], :delays::double precision[])
    with ordinality s(exchange, routing_key, body, headers, message_id, correlation_id, delay, n)
), routed as (
  select distinct s.n, b.queue from sent s join bus_binding b on b.exchange = s.exchange and s.routing_key ~ b.regex
  union all
  select s.n, coalesce(q.delays_for, q.queue) from sent s join bus_queue q on s.exchange = '' and q.queue = s.routing_key
), put as (
  insert into bus_message (queue, exchange, routing_key, message_id, correlation_id, headers, body, published_at, ready_at)
  select r.queue, s.exchange, s.routing_key, s.message_id, s.correlation_id, s.headers::jsonb, s.body, now(),
         now() + make_interval(secs => coalesce(s.delay, 0))
  from routed r join sent s using (n)
  order by r.n
  returning queue
), woken as (
  select count(pg_notify('opilio_bus', queue)) from (select distinct queue from put) q
)
select s.n, count(r.n) as queues from woken, sent s left join routed r using (n) group by s.n order by s.n;

-- name: bus_take
-- Leases ready messages, oldest first, to one consumer.
with ready as (
  select id from bus_message
  where queue = :queue and ready_at <= now()
  order by ready_at, id
  limit :most
  for update skip locked
)
update bus_message m
set ready_at = now() + make_interval(secs => :lease_seconds), lease = :lease, deliveries = deliveries + 1
from ready where m.id = ready.id
returning m.id, m.queue, m.exchange, m.routing_key, m.message_id, m.correlation_id, m.headers, m.body, m.deliveries;

-- name: bus_next_ready
-- Seconds until a message of the queue is ready; null when it is empty.
select extract(epoch from min(ready_at) - clock_timestamp())::double precision from bus_message where queue = :queue;

-- name: bus_renew
-- Keeps the messages of a living consumer from being handed to another.
update bus_message set ready_at = now() + make_interval(secs => :lease_seconds)
where id = any(:ids::bigint[]) and lease = :lease;

-- name: bus_ack
delete from bus_message where id = :id and lease = :lease;

-- name: bus_retry
-- Gives a message back for later, marked as a retry.
update bus_message
set ready_at = now() + make_interval(secs => :delay), lease = null, deliveries = 0, headers = headers || :headers
where id = :id and lease = :lease;

-- name: bus_release
-- Gives back what a consumer leased and has not settled.
update bus_message set ready_at = now(), lease = null
where queue = :queue and lease = :lease;

-- name: bus_dead_letter
-- Moves a message to the dead letters, its body untouched.
with gone as (
  delete from bus_message where id = :id and lease = :lease returning *
)
insert into dead_letter (queue, source, reason, exchange, routing_key, message_id, correlation_id, headers, body, dead_at)
select :dead_letter_queue, queue, :reason, exchange, routing_key, message_id, correlation_id,
       headers || jsonb_build_object('x-reason', :reason::text), body, now()
from gone;

-- name: bus_park
update bus_message set queue = :parking, ready_at = now(), lease = null, deliveries = 0 where id = :id and lease = :lease;

-- name: bus_unpark
with moved as (
  update bus_message set queue = :queue, ready_at = now(), lease = null where queue = :parking returning queue
), woken as (
  select pg_notify('opilio_bus', queue) from (select distinct queue from moved) q
)
select moved.queue from moved left join woken on true;

-- name: bus_depth
select count(*) from bus_message where queue = :queue and ready_at <= now();
