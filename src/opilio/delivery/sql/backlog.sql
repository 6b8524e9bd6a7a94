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
