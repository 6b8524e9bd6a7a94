-- The events of a URL that jobs carry are found by the policies that have it, and by those that had it before.
create table if not exists former_url (
  url_hash   bigint not null,
  policy_id  uuid not null references policy on delete cascade,
  primary key (url_hash, policy_id)
);
create index if not exists former_url_policy on former_url (policy_id);
create or replace function opilio_keep_former_url() returns trigger language plpgsql as $$
begin
  insert into former_url (url_hash, policy_id) values (hashtextextended(old.url, 0), old.policy_id) on conflict do nothing;
  return null;
end $$;
create or replace trigger policy_keep_former_url after update of url, deleted_at on policy
  for each row when (old.url <> new.url or (old.deleted_at is null and new.deleted_at is not null)) execute function opilio_keep_former_url();
