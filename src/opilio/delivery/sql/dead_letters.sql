-- name: list_dead_letters
-- Dead letters that were not replayed, newest first; one of them when an id is given.
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
-- Marks a dead letter as replayed; of two callers one gets it. The copy in the broker is removed afterwards.
with claimed as (
  update dead_letter set replayed_at = now()
  where dead_letter_id = :id and replayed_at is null
  returning dead_letter_id, queue, source, exchange, routing_key, message_id, correlation_id, headers, body, delivery_id
)
select c.* from claimed c, pg_notify('opilio_dead_letters', '');

-- name: replayed_in_broker
select dead_letter_id, queue from dead_letter where in_broker and replayed_at is not null order by dead_letter_id limit :most;

-- name: mark_removed
update dead_letter set in_broker = false where dead_letter_id = any(:ids::uuid[]);

-- name: next_seq
select nextval(pg_get_serial_sequence('outbox', 'seq'));

-- name: retry_dead_delivery
-- Queues a dead webhook again with the bytes that were kept. The gate is locked by the caller.
insert into webhook_delivery (endpoint_id, subject, webhook_id, type, cause, body, state, head, next_at, created_at)
select :endpoint_id, :subject, :webhook_id, :type, 'replay', :body, 'pending',
       not exists (select 1 from webhook_delivery d where d.endpoint_id = :endpoint_id and d.subject = :subject and d.head),
       coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now());

-- name: index_dead_letter
-- Adds a dead letter of the broker to the list; a repetition changes nothing.
insert into dead_letter (dead_letter_id, queue, source, reason, exchange, routing_key, message_id, correlation_id, headers, body, dead_at, in_broker)
values (:id, :queue, :source, :reason, :exchange, :routing_key, :message_id, :correlation_id, :headers, :body, now(), true)
on conflict do nothing;
