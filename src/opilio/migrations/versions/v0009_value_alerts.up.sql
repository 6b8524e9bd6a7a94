-- A value alert looks at one policy, the policies of a host, those with certain labels, or all.
create table value_alert (
  alert_id        uuid primary key default opilio_uuid7(),
  name            text not null,
  policy_id       uuid,
  host            text,
  labels          jsonb,
  everything      boolean not null default false,
  field           text not null,
  condition       text not null check (condition in ('below', 'above', 'changed', 'changed_percent', 'back_in_stock')),
  value           numeric,
  currency        text,
  cooldown_hours  double precision not null check (cooldown_hours >= 0),
  enabled         boolean not null default true,
  created_at      timestamptz not null default now(),
  updated_at      timestamptz not null default now(),
  constraint one_scope check (num_nonnulls(policy_id, host, labels) + everything::int = 1)
);
create index value_alert_policy on value_alert (policy_id) where enabled and policy_id is not null;
create index value_alert_host on value_alert (host) where enabled and host is not null;
create index value_alert_broad on value_alert (alert_id) where enabled and (everything or labels is not null);

-- What an alert knows of a policy: whether its condition holds, when it last fired, what it last saw.
create table value_alert_state (
  alert_id   uuid not null references value_alert on delete cascade,
  policy_id  uuid not null references policy on delete cascade,
  fired_at   timestamptz,
  holding    boolean not null,
  seen       jsonb,
  primary key (alert_id, policy_id)
) with (fillfactor = 80);
create index value_alert_state_fired on value_alert_state (alert_id, fired_at desc nulls last);
create index value_alert_state_policy on value_alert_state (policy_id);
