insert into outbox (seq, event_id, type, subject, data, occurred_at) overriding system value
select seq, event_id, type, subject, data, occurred_at from event_waiting;
delete from event e using event_waiting w where e.seq = w.seq and e.logged_at = w.logged_at;
drop function oldest_event_waiting();
drop view event_waiting;
drop table relay_position;
update event e set body = event_body(e) where e.body is null;
drop view event_log;
drop function log_relayed_event();
drop function event_body(event);
alter table event
  drop column data,
  alter column body set not null,
  alter column seq drop default,
  alter column event_id drop default,
  alter column logged_at drop default;
alter table event rename to event_log;
do $$
declare
  day text;
begin
  for day in select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'event_log'::regclass loop
    execute format('alter table %I rename to %I', day, replace(day, 'event_', 'event_log_'));
  end loop;
end $$;
create index event_log_time on event_log (logged_at);
alter table webhook_gate drop column paused_seq;
create or replace function opilio_partition(parent text, unit text, at timestamptz) returns text language plpgsql as $$
declare
  first timestamptz := date_trunc(unit, at, 'UTC');
  last timestamptz := (first at time zone 'UTC' + ('1 ' || unit)::interval) at time zone 'UTC';
  child text := parent || to_char(first at time zone 'UTC', '_YYYYMMDD');
  age text := substring(pg_get_partkeydef(parent::regclass) from '\((\w+)\)');
  stored text := (select string_agg(quote_ident(attname), ', ') from pg_attribute
                  where attrelid = parent::regclass and attnum > 0 and not attisdropped and attgenerated = '');
begin
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
