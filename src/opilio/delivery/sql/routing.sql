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

-- name: dead_letter_unpublished
insert into dead_letter (queue, source, reason, exchange, routing_key, message_id, correlation_id, headers, body, dead_at)
select :queue, '', b.reason, b.exchange, b.routing_key, b.message_id, b.correlation_id, b.headers::jsonb, b.body, now()
from unnest(:reasons::text[], :exchanges::text[], :routing_keys::text[], :message_ids::text[], :correlation_ids::text[],
            :headers::text[], :bodies::bytea[]) b(reason, exchange, routing_key, message_id, correlation_id, headers, body);
