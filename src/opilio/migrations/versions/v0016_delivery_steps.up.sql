-- Old deliveries are found by their end, without reading those that wait.
create index webhook_delivery_finished on webhook_delivery (finished_at) where state <> 'pending';

-- Events that an endpoint missed while it was paused are queued in steps from this position on; null: none are.
alter table webhook_gate add column backfill_seq bigint;
create index webhook_gate_backfill on webhook_gate (endpoint_id) where backfill_seq is not null;

-- Whether the broker's queue still holds its own copy; a replayed one is removed there too.
alter table dead_letter add column in_broker boolean not null default false;
update dead_letter set in_broker = true where delivery_id is null and source <> '' and replayed_at is null;
create index dead_letter_replayed on dead_letter (dead_letter_id) where in_broker and replayed_at is not null;
