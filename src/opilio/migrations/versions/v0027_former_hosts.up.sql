-- The jobs of a small host are found through its policies; a policy whose URL moved to another host left jobs behind.
create table if not exists former_host (
  host_id    int not null references host on delete cascade,
  policy_id  uuid not null references policy on delete cascade,
  primary key (host_id, policy_id)
);
create index if not exists former_host_policy on former_host (policy_id);
create index if not exists policy_deleted on policy (host_id, policy_id) where deleted_at is not null;

create or replace function opilio_keep_former_host() returns trigger language plpgsql as $$
begin
  insert into former_host (host_id, policy_id) values (old.host_id, old.policy_id) on conflict do nothing;
  return null;
end $$;
create or replace trigger policy_keep_former_host after update of host_id on policy
  for each row when (old.host_id <> new.host_id) execute function opilio_keep_former_host();
