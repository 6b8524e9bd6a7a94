-- The function as it was since 0019.
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
