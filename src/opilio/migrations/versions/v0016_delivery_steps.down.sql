drop index dead_letter_replayed;
alter table dead_letter drop column in_broker;
drop index webhook_gate_backfill;
alter table webhook_gate drop column backfill_seq;
drop index webhook_delivery_finished;
