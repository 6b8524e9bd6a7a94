-- What a crawl sees for the first time is one row, whatever number of values it is; docs/adr/0020-first-values.md says why.
alter table value_change rename to changed_value;
-- The values of one row take the ids from its own on: at most 54, the most that a crawl can see.
alter table changed_value alter column change_id set increment by 64;
create table first_values (
  change_id  bigint primary key default nextval('value_change_change_id_seq'),
  policy_id  uuid not null,
  job_id     uuid not null,
  seen       jsonb not null check (jsonb_array_length(seen) between 1 and 64),  -- [[field, value], …]
  at         timestamptz not null
);
create index first_values_policy on first_values (policy_id);

create view value_change as
  select change_id, policy_id, job_id, field, old, new, at from changed_value
  union all
  select f.change_id + s.place - 1, f.policy_id, f.job_id, s.value ->> 0, null::jsonb, s.value -> 1, f.at
  from first_values f cross join lateral jsonb_array_elements(f.seen) with ordinality s(value, place);

-- A process of the version before writes and deletes here.
create function add_value_change() returns trigger language plpgsql as $$
begin
  insert into changed_value (policy_id, job_id, field, old, new, at)
  values (new.policy_id, new.job_id, new.field, new.old, new.new, new.at);
  return new;
end $$;
create function delete_value_change() returns trigger language plpgsql as $$
begin
  delete from changed_value where change_id = old.change_id;
  delete from first_values where change_id between old.change_id - 63 and old.change_id and policy_id = old.policy_id;
  return old;
end $$;
create trigger add_value_change instead of insert on value_change for each row execute function add_value_change();
create trigger delete_value_change instead of delete on value_change for each row execute function delete_value_change();
