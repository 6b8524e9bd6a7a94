drop function delivery_drop_partitions(text, timestamptz);
drop table webhook_progress, webhook_attempt, webhook_delivery, webhook_gate, webhook_endpoint, dead_letter,
  bus_message, bus_binding, bus_queue, outbound, event_log;
-- Messages that only this revision can publish would otherwise be taken for events.
delete from outbox where exchange is not null;
alter table outbox
  drop constraint outbox_message_is_whole,
  drop column exchange, drop column routing_key, drop column headers, drop column correlation_id;
