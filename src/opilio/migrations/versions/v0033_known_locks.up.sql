-- A job is not as it was read once its policy has changed: see crawl/known_locks.py.
create function opilio_policy_changed() returns trigger language plpgsql as $$
begin
  update crawl_state s set policy_id = s.policy_id from changed c where s.policy_id = c.policy_id and s.place = 'locked';
  return null;
end $$;
create trigger policy_changed after update on policy
  referencing new table as changed for each statement execute function opilio_policy_changed();

-- Whether any host has strikes is asked by every submit.
create index host_struck on host (host_id) where strikes > 0;
