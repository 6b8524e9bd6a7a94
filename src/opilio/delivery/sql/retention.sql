-- name: try_alone
select pg_try_advisory_xact_lock(hashtext('opilio.delivery.outbox.retention'));

-- name: prepare_partitions
select opilio_partition(parent, 'day', :now::timestamptz + n * interval '1 day')
from (values ('event_log'), ('webhook_attempt')) t(parent), generate_series(0, 3) n;

-- name: drop_events
select delivery_drop_partitions('event_log', :before);

-- name: drop_attempts
select delivery_drop_partitions('webhook_attempt', :before);

-- name: prune_unprepared
-- Rows whose day had no partition of its own.
with events as (delete from event_log_other where logged_at < :before returning 1),
     attempts as (delete from webhook_attempt_other where at < :before returning 1)
select (select count(*) from events) + (select count(*) from attempts);

-- name: prune_deliveries
delete from webhook_delivery
where delivery_id in (
  select delivery_id from webhook_delivery where state <> 'pending' and finished_at < :before order by delivery_id limit :most);

-- name: prune_dead_letters
delete from dead_letter
where dead_letter_id in (
  select dead_letter_id from dead_letter where replayed_at < :replayed_before or dead_at < :before
  order by dead_letter_id limit :most);

-- name: prune_progress
delete from webhook_progress where final and not waiting and updated_at < :before;
