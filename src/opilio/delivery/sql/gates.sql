-- name: reopen_gate
-- A replay by hand assumes that the endpoint works again: waiting deliveries are tried now, whatever failed before.
with opened as (
  update webhook_gate set due_at = least(due_at, coalesce(:now::timestamptz, now())), closed_until = '-infinity'
  where endpoint_id = :endpoint_id
  returning 1
)
select pg_notify('opilio_webhooks', '') from (select count(*) from opened) done;

-- name: open_gates
-- Something waits at these gates, and their senders hear of it. The gates are locked by the caller.
with opened as (
  update webhook_gate set due_at = coalesce(:now::timestamptz, now())
  where endpoint_id = any(:endpoint_ids::uuid[]) and due_at > coalesce(:now::timestamptz, now())
  returning 1
)
select pg_notify('opilio_webhooks', '') from (select count(*) from opened) done;

-- name: lock_gates
select endpoint_id from webhook_gate where endpoint_id = any(:endpoint_ids::uuid[]) order by endpoint_id for update;
