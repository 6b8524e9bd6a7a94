-- name: add_alert
-- A new alert.
insert into value_alert (name, policy_id, host, labels, everything, field, condition, value, currency, cooldown_hours, enabled,
  created_at, updated_at)
values (:name::text, :policy_id::uuid, :host::text, :labels::jsonb, :everything::boolean, :field::text, :condition::text,
  :value::numeric, :currency::text, :cooldown_hours::float8, :enabled::boolean,
  coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now()))
returning alert_id;

-- name: change_alert
-- Replaces an alert. What it knew of policies is forgotten, because it may look for something else now.
with forgotten as (delete from value_alert_state where alert_id = :alert_id::uuid and :afresh::boolean)
update value_alert set name = :name::text, policy_id = :policy_id::uuid, host = :host::text, labels = :labels::jsonb,
  everything = :everything::boolean, field = :field::text, condition = :condition::text, value = :value::numeric,
  currency = :currency::text, cooldown_hours = :cooldown_hours::float8, enabled = :enabled::boolean,
  updated_at = coalesce(:now::timestamptz, now())
where alert_id = :alert_id::uuid;

-- name: take_alert
-- One alert, locked for a change.
select * from value_alert where alert_id = :alert_id::uuid for update;

-- name: delete_alert
delete from value_alert where alert_id = :alert_id::uuid returning alert_id;

-- name: list_alerts
-- Newest first, below a known one; or the one with an id.
select a.*, (select s.fired_at from value_alert_state s where s.alert_id = a.alert_id
             order by s.fired_at desc nulls last limit 1) as last_fired_at
from value_alert a
where (:alert_id::uuid is null or a.alert_id = :alert_id::uuid) and (:before::uuid is null or a.alert_id < :before::uuid)
order by a.alert_id desc limit :limit::int;

-- name: alerts_of_policies
-- The enabled alerts that look at these policies, with what they know of them.
with page as materialized (
  select p.policy_id, p.labels, h.name as host from policy p join host h on h.host_id = p.host_id
  where p.policy_id = any(:policy_ids::uuid[])),
matching as (
  select a.alert_id, page.policy_id from page join value_alert a on a.policy_id = page.policy_id and a.enabled
  union all
  select a.alert_id, page.policy_id from page join value_alert a on a.host = page.host and a.enabled
  union all
  select a.alert_id, page.policy_id from page
  join value_alert a on a.enabled and (a.everything or a.labels is not null) and (a.everything or page.labels @> a.labels))
select m.policy_id, a.alert_id, a.name, a.field, a.condition, a.value, a.currency, a.cooldown_hours, s.fired_at, coalesce(s.holding, false) as holding, s.seen, s.alert_id is not null as known
from matching m join value_alert a on a.alert_id = m.alert_id
left join value_alert_state s on s.alert_id = m.alert_id and s.policy_id = m.policy_id
order by a.alert_id, m.policy_id;

-- name: save_alert_states
insert into value_alert_state as s (alert_id, policy_id, fired_at, holding, seen)
select * from unnest(:alert_ids::uuid[], :policy_ids::uuid[], :fired_ats::timestamptz[], :holdings::boolean[], :seens::jsonb[])
order by 1, 2
on conflict (alert_id, policy_id) do update
  set fired_at = excluded.fired_at, holding = excluded.holding, seen = excluded.seen;

-- name: add_alert_events
-- Into the event log, in the transaction that stored the results.
insert into event (type, subject, data, occurred_at, logged_at)
select :type::text, e.subject, e.data, coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
from unnest(:subjects::text[], :events::jsonb[]) e(subject, data);
