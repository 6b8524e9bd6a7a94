-- What goes out. docs/explanation/delivery.md follows an event through these tables.

-- A row with an exchange is a message for the bus alone: published as it is, neither logged nor sent to webhooks.
alter table outbox
  add column exchange        text,
  add column routing_key     text,
  add column headers         jsonb,
  add column correlation_id  text,
  add constraint outbox_message_is_whole check ((exchange is null) = (routing_key is null));

-- ── events: kept for a while, so that they can be shown, tailed and replayed ────────────────────
create table event_log (
  seq          bigint not null,            -- the outbox's
  event_id     uuid not null,
  type         text not null,
  subject      text not null,
  occurred_at  timestamptz not null,
  logged_at    timestamptz not null,
  body         bytea not null              -- the CloudEvent as sent: signatures are made over these bytes
) partition by range (logged_at);
create index event_log_seq on event_log (seq);
create index event_log_id on event_log (event_id);
create index event_log_subject on event_log (subject, seq);
create index event_log_time on event_log (logged_at);
create table event_log_other partition of event_log default;

-- ── the broker's share: what waits to be published and confirmed ────────────────────────────────
create table outbound (
  seq             bigint primary key,      -- the outbox's
  exchange        text not null,
  routing_key     text not null,
  subject         text not null,
  message_id      text not null,
  correlation_id  text,
  headers         jsonb not null,
  body            bytea not null,
  queued_at       timestamptz not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);

-- ── the local bus: RabbitMQ's shape in tables, for the embedded default ─────────────────────────
create table bus_queue (
  queue      text primary key,
  delays_for text references bus_queue on delete cascade   -- a delay queue hands over to this one
);
create table bus_binding (
  exchange  text not null,
  pattern   text not null,
  queue     text not null references bus_queue on delete cascade,
  regex     text not null,
  primary key (exchange, pattern, queue)
);
create table bus_message (
  id              bigint generated always as identity primary key,
  queue           text not null,
  exchange        text not null,
  routing_key     text not null,
  message_id      text not null,
  correlation_id  text,
  headers         jsonb not null,
  body            bytea not null,
  published_at    timestamptz not null,
  ready_at        timestamptz not null,    -- a consumer that takes it moves this on: its lease
  lease           uuid,
  deliveries      int not null default 0
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create index bus_message_ready on bus_message (queue, ready_at, id);

-- ── dead letters, of the bus and of webhooks ────────────────────────────────────────────────────
create table dead_letter (
  dead_letter_id  uuid primary key default opilio_uuid7(),
  queue           text not null,           -- where a person looks for it: collector.results.dlq
  source          text not null,           -- where it is sent again: a queue, or a webhook endpoint
  reason          text not null,
  exchange        text not null default '',
  routing_key     text not null default '',
  message_id      text not null,
  correlation_id  text,
  headers         jsonb not null,
  body            bytea not null,
  delivery_id     bigint,                  -- of a webhook
  dead_at         timestamptz not null,
  replayed_at     timestamptz
);
create index dead_letter_open on dead_letter (dead_letter_id) where replayed_at is null;
create index dead_letter_delivery on dead_letter (delivery_id) where delivery_id is not null;

-- ── webhooks ────────────────────────────────────────────────────────────────────────────────────
create table webhook_endpoint (
  endpoint_id       uuid primary key default opilio_uuid7(),
  kind              text not null check (kind in ('subscription', 'direct')),
  url               text not null check (length(url) <= 2048),
  events            text[] not null,
  event_regex       text not null,         -- the filters as one expression, made by the same rule that tests use
  secret            text not null,
  old_secret        text,
  old_secret_until  timestamptz,
  description       text not null default '',
  status            text not null check (status in ('active', 'paused', 'disabled')),
  status_reason     text,
  status_since      timestamptz not null,
  created_at        timestamptz not null,
  updated_at        timestamptz not null
);
create unique index webhook_endpoint_direct on webhook_endpoint (url) where kind = 'direct';

-- One narrow row for each endpoint, rewritten at every visit. Senders look at gates that are open, never at the
-- deliveries behind closed ones, so a dead endpoint with a long backlog costs the others nothing. Whoever holds
-- the lease is alone with the endpoint: concurrency is kept in its memory. Whoever adds or settles deliveries
-- of an endpoint locks its gate first, in the order of ids: that keeps `due_at` and the heads below exact.
create table webhook_gate (
  endpoint_id      uuid primary key references webhook_endpoint on delete cascade,
  active           boolean not null,
  host             text not null,
  max_concurrent   smallint not null check (max_concurrent between 1 and 100),
  due_at           timestamptz not null default 'infinity',    -- when something waits to be sent
  closed_until     timestamptz not null default '-infinity',   -- after failures in a row, or Retry-After
  open_at          timestamptz generated always as (greatest(due_at, closed_until)) stored,
  leased_until     timestamptz not null default '-infinity',
  lease            uuid,
  failures         int not null default 0,                     -- in a row
  failing_since    timestamptz,
  last_success_at  timestamptz,
  last_failure_at  timestamptz,
  last_error       text
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
create index webhook_gate_open on webhook_gate (open_at) where active;

create table webhook_delivery (
  delivery_id      bigint generated always as identity primary key,
  endpoint_id      uuid not null,
  subject          text not null,
  webhook_id       text not null,          -- the event's id: the same in every attempt and replay
  type             text not null,
  cause            text not null check (cause in ('event', 'replay', 'test', 'direct')),
  event_logged_at  timestamptz,            -- with webhook_id, where the body lies
  body             bytea,                  -- of what is no logged event
  state            text not null check (state in ('pending', 'delivered', 'dead', 'superseded')),
  head             boolean not null,       -- first of its endpoint and subject: only heads are sent, so order holds
  attempts         smallint not null default 0,
  next_at          timestamptz not null,
  created_at       timestamptz not null,
  finished_at      timestamptz,
  check ((body is null) <> (event_logged_at is null)),
  check ((state = 'pending') = (finished_at is null)),
  check (state = 'pending' or not head)
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
create unique index webhook_delivery_one_head on webhook_delivery (endpoint_id, subject) where head;
create index webhook_delivery_next on webhook_delivery (endpoint_id, next_at, delivery_id) where head;
create index webhook_delivery_behind on webhook_delivery (endpoint_id, subject, delivery_id) where state = 'pending' and not head;
create index webhook_delivery_direct on webhook_delivery (endpoint_id, created_at) where cause = 'direct';

create table webhook_attempt (
  attempt_id   uuid not null default opilio_uuid7(),
  endpoint_id  uuid not null,
  delivery_id  bigint not null,
  webhook_id   text not null,
  type         text not null,
  attempt      smallint not null,
  at           timestamptz not null,
  status       smallint,                   -- of the answer; none when there was no answer
  latency_ms   double precision not null,
  outcome      text not null check (outcome in ('delivered', 'retrying', 'dead')),
  error        text,
  answer       text                        -- its first kilobyte
) partition by range (at);
create index webhook_attempt_endpoint on webhook_attempt (endpoint_id, attempt_id desc);
create index webhook_attempt_delivery on webhook_attempt (delivery_id);
create table webhook_attempt_other partition of webhook_attempt default;

-- The newest state of each subject that is told to one address: overwritten, never queued.
create table webhook_progress (
  subject      text primary key,
  endpoint_id  uuid not null references webhook_endpoint on delete cascade,
  version      bigint not null,
  body         bytea not null,
  final        boolean not null,
  waiting      boolean not null,
  next_at      timestamptz not null,
  updated_at   timestamptz not null
) with (fillfactor = 70);
create index webhook_progress_waiting on webhook_progress (next_at) where waiting;

select opilio_partition(parent, 'day', now() + n * interval '1 day')
from (values ('event_log'), ('webhook_attempt')) t(parent), generate_series(0, 3) n;

-- History is dropped by the day, without a DELETE; answers how many days went.
create function delivery_drop_partitions(parent text, before timestamptz) returns int
language plpgsql as $$
declare
  child text;
  dropped int := 0;
begin
  for child in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = parent::regclass and c.relname ~ '_[0-9]{8}$'
      and to_timestamp(right(c.relname, 8) || ' +00', 'YYYYMMDD TZH') + interval '1 day' <= before
  loop
    execute format('drop table %I', child);
    dropped := dropped + 1;
  end loop;
  return dropped;
end $$;
