-- Value alerts: what fired, for people.

-- name: fired_alerts
-- The newest firings of some alerts, one per alert and policy, with the event that was sent if it is logged already.
select f.alert_id, f.policy_id, f.fired_at, f.name, coalesce(s.last_title, p.url) as title, p.url, s.last_currency as currency, e.body
from (
  select a.alert_id, a.name, x.policy_id, x.fired_at from value_alert a cross join lateral (
    select s.policy_id, s.fired_at from value_alert_state s
    where s.alert_id = a.alert_id and s.fired_at is not null order by s.fired_at desc limit :most::int) x
  where a.alert_id = any(:alert_ids::uuid[]) order by x.fired_at desc limit :most::int) f
join policy p on p.policy_id = f.policy_id left join policy_state s on s.policy_id = f.policy_id
left join lateral (
  select v.body from event_log v
  where v.subject = p.url and v.type = 'crawl.value.alert' and v.occurred_at = f.fired_at
    and coalesce(v.data, convert_from(v.body, 'UTF8')::jsonb -> 'data') ->> 'alert_id' = f.alert_id::text
  order by v.seq desc limit 1) e on true
order by f.fired_at desc;
