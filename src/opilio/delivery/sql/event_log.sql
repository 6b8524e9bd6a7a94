-- name: list_events
-- Events, newest first.
select seq, event_id, type, subject, occurred_at, logged_at, body
from event_log
where (:before::bigint is null or seq < :before::bigint)
  and (:type_regex::text is null or type ~ :type_regex::text)
  and (:subject::text is null or subject = :subject::text)
  and (:since::timestamptz is null or (logged_at >= :since::timestamptz and occurred_at >= :since::timestamptz))
order by seq desc
limit :most;

-- name: find_event
select seq, event_id, type, subject, occurred_at, logged_at, body from event_log where event_id = :event_id limit 1;

-- name: recent_events
-- What was logged since, oldest first.
select seq, event_id, type, subject, occurred_at, logged_at, body
from event_log
where logged_at > :since and (:type_regex::text is null or type ~ :type_regex::text)
order by seq
limit :most;

-- name: list_dead_letters
-- Dead letters that nobody has sent again, newest first; one of them when an id is given.
select dead_letter_id, queue, source, reason, exchange, routing_key, message_id, correlation_id, headers, dead_at,
       replayed_at, delivery_id, octet_length(body) as size, case when :with_body then body end as body
from dead_letter
where (:id::uuid is not null or replayed_at is null)
  and (:id::uuid is null or dead_letter_id = :id::uuid)
  and (:before::uuid is null or dead_letter_id < :before::uuid)
  and (:queue::text is null or queue = :queue::text)
order by dead_letter_id desc
limit :most;

-- name: claim_dead_letter
-- Marks a dead letter as sent again; a second one finds it gone.
update dead_letter set replayed_at = now()
where dead_letter_id = :id and replayed_at is null
returning dead_letter_id, queue, source, exchange, routing_key, message_id, correlation_id, headers, body, delivery_id;

-- name: next_seq
select nextval(pg_get_serial_sequence('outbox', 'seq'));

-- name: revive_delivery
-- A webhook that was given up is sent again, with the bytes that were kept. The gate is locked by the caller.
insert into webhook_delivery (endpoint_id, subject, webhook_id, type, cause, body, state, head, next_at, created_at)
select :endpoint_id, :subject, :webhook_id, :type, 'replay', :body, 'pending',
       not exists (select 1 from webhook_delivery d where d.endpoint_id = :endpoint_id and d.subject = :subject and d.head),
       :now, :now;

-- name: index_dead_letter
-- Keeps a dead letter that arrived by the broker; the same one again changes nothing.
insert into dead_letter (dead_letter_id, queue, source, reason, exchange, routing_key, message_id, correlation_id, headers, body, dead_at)
values (:id, :queue, :source, :reason, :exchange, :routing_key, :message_id, :correlation_id, :headers, :body, now())
on conflict do nothing;

-- name: measure
-- What waits, and for how long.
select (select count(*) from outbox) as outbox,
       (select extract(epoch from now() - min(occurred_at)) from outbox)::double precision as outbox_age,
       (select count(*) from outbound) as outbound,
       (select extract(epoch from now() - queued_at) from outbound order by seq limit 1)::double precision as outbound_age,
       (select count(*) from webhook_delivery where head)
         + (select count(*) from webhook_delivery where state = 'pending' and not head) as webhooks,
       (select extract(epoch from now() - min(due_at)) from webhook_gate where active and due_at <= now())::double precision as webhooks_age,
       (select count(*) from webhook_endpoint where status = 'active') as endpoints_active,
       (select count(*) from webhook_endpoint where status = 'paused') as endpoints_paused,
       (select count(*) from webhook_endpoint where status = 'disabled') as endpoints_disabled;

-- name: measure_queues
select queue, count(*) as messages from bus_message group by queue;

-- name: measure_dead_letters
select queue, count(*) as letters from dead_letter where replayed_at is null group by queue;
