-- An event is written once, where it stays; the relay remembers which ones it has handed on. The outbox keeps messages
-- for the bus alone, and events that an older version wrote. docs/adr/0018-one-event-log.md says why.
alter table event_log rename to event;
do $$
declare
  day text;
begin
  for day in select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'event'::regclass loop
    execute format('alter table %I rename to %I', day, replace(day, 'event_log_', 'event_'));
  end loop;
end $$;
alter table event
  add column data jsonb,                   -- null where `body` holds what an older version sent
  alter column body drop not null,
  -- A transaction has its number before it takes its place in the order: the relay waits for numbers, not for gaps.
  alter column seq set default case when pg_current_xact_id() is not null then nextval('outbox_seq_seq') end,
  alter column event_id set default opilio_uuid7(),
  alter column logged_at set default now();
drop index event_log_time;                 -- days are partitions

-- The CloudEvent of an event, as it is published, signed and shown.
create function event_body(e event) returns bytea language sql stable parallel safe as $$
  select coalesce(e.body, convert_to(
    '{"id":"' || e.event_id || '","source":"opilio","type":' || to_json(e.type) || ',"subject":' || to_json(e.subject)
    || ',"time":"' || replace(to_char(e.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '.000000', '') || 'Z"'
    || ',"data":' || e.data || ',"specversion":"1.0","datacontenttype":"application/json"}', 'UTF8'))
$$;
create view event_log as
select e.seq, e.event_id, e.type, e.subject, e.occurred_at, e.logged_at, event_body(e) as body, e.data from event e;

-- A relay of the version before logs what it has handed on.
create function log_relayed_event() returns trigger language plpgsql as $$
begin
  insert into event (seq, event_id, type, subject, occurred_at, logged_at, body)
  values (new.seq, new.event_id, new.type, new.subject, new.occurred_at, new.logged_at, new.body);
  return new;
end $$;
create trigger log_relayed_event instead of insert on event_log for each row execute function log_relayed_event();
create or replace function opilio_partition(parent text, unit text, at timestamptz) returns text language plpgsql as $$
declare
  first timestamptz := date_trunc(unit, at, 'UTC');
  last timestamptz := (first at time zone 'UTC' + ('1 ' || unit)::interval) at time zone 'UTC';
  child text := parent || to_char(first at time zone 'UTC', '_YYYYMMDD');
  age text := substring(pg_get_partkeydef(parent::regclass) from '\((\w+)\)');
  stored text := (select string_agg(quote_ident(attname), ', ') from pg_attribute
                  where attrelid = parent::regclass and attnum > 0 and not attisdropped and attgenerated = '');
begin
  if parent = 'event_log' then  -- a process of the version before prepares days under the old name
    return opilio_partition('event', unit, at);
  end if;
  if to_regclass(child) is not null then
    return child;
  end if;
  -- What was kept aside because nobody had prepared its day moves in, or the day could never be prepared.
  execute format('create table %I (like %I including defaults including constraints including generated)', child, parent);
  execute format('with moved as (delete from %I where %I >= %L and %I < %L returning *) insert into %I (%s) select %s from moved',
                 parent || '_other', age, first, age, last, child, stored, stored);
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, child, first, last);
  return child;
end $$;

-- One row: the places that were handed on. What is missing below the last of them was rolled back, was a message, or
-- is not committed yet; it is given up once every transaction that was open when it was first missed has ended.
create table relay_position (
  relayed      int8multirange not null,
  missed_upto  bigint,                     -- places up to here that are missing …
  missed_xid   xid8,                       -- … are settled when all transactions before this one have ended
  only_one     boolean primary key default true check (only_one)
) with (fillfactor = 20);
insert into relay_position (relayed)
select int8multirange(int8range(null, case when is_called then last_value else last_value - 1 end, '(]')) from outbox_seq_seq;

-- Events that were not handed on yet.
create view event_waiting as
select v.* from relay_position p
cross join lateral unnest('{(,)}'::int8multirange - p.relayed) missing
cross join lateral (
  select * from event v
  where v.seq >= lower(missing) and v.seq < coalesce(upper(missing), 9223372036854775807)
    and v.data is not null) v;  -- an older version logs what it has handed on

create function oldest_event_waiting() returns timestamptz language sql stable as $$
  select v.occurred_at from relay_position p
  cross join lateral unnest('{(,)}'::int8multirange - p.relayed) missing
  cross join lateral (
    select v.occurred_at from event v
    where v.seq >= lower(missing) and v.seq < coalesce(upper(missing), 9223372036854775807) and v.data is not null
    order by v.seq limit 1) v
  limit 1
$$;

-- Where the relay stood when an endpoint was paused: its events from there on were not queued.
alter table webhook_gate add column paused_seq bigint;
