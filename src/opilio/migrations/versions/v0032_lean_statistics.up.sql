-- A new partition has the statistics targets of its parent.
create or replace function opilio_partition(parent text, unit text, at timestamptz) returns text language plpgsql as $$
declare
  first timestamptz := date_trunc(unit, at, 'UTC');
  last timestamptz := (first at time zone 'UTC' + ('1 ' || unit)::interval) at time zone 'UTC';
  child text := parent || to_char(first at time zone 'UTC', '_YYYYMMDD');
  age text := substring(pg_get_partkeydef(parent::regclass) from '\((\w+)\)');
  stored text := (select string_agg(quote_ident(attname), ', ') from pg_attribute
                  where attrelid = parent::regclass and attnum > 0 and not attisdropped and attgenerated = '');
  statistics text := (select string_agg(format('alter column %I set statistics %s', attname, attstattarget), ', ') from pg_attribute
                      where attrelid = parent::regclass and attnum > 0 and not attisdropped and attstattarget >= 0);
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
  if statistics is not null then  -- "like" does not copy them
    execute format('alter table %I ', child) || statistics;
  end if;
  execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, child, first, last);
  return child;
end $$;
