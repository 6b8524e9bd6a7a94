-- name: delete_old_deliveries
delete from webhook_delivery
where delivery_id in (
  select delivery_id from webhook_delivery where state <> 'pending' and finished_at < :before order by finished_at limit :most);

-- name: delete_old_dead_letters
delete from dead_letter
where dead_letter_id in (
  select dead_letter_id from dead_letter where replayed_at < :replayed_before or dead_at < :before
  order by dead_letter_id limit :most);

-- name: delete_old_progress
-- The last state of subjects that ended and was sent.
delete from webhook_progress
where subject in (select subject from webhook_progress where final and not waiting and updated_at < :before limit :most);
