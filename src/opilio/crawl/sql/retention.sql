-- name: drop_late
-- Late results past their age.
delete from late_result where received_at < :before::timestamptz;

-- name: drop_activity
-- Bot activity past its age.
delete from bot_activity where hour < :before::timestamptz;

-- name: drop_cooling
-- Cooling periods of hosts past their age.
delete from host_cooling where until < :before::timestamptz;

-- name: drop_policies
-- Deleted policies that nothing refers to any more.
delete from policy p where p.deleted_at < :before::timestamptz
  and not exists (select 1 from crawl_state s where s.policy_id = p.policy_id and s.job_id is not null)
  and not exists (select 1 from job_archive a where a.policy_id = p.policy_id)
  and not exists (select 1 from stored_result r where r.policy_id = p.policy_id);

-- name: drop_values
-- The oldest of the value history past its age; ids rise with time, so that the primary key finds them.
with oldest as materialized (
  select v.change_id, v.at from changed_value v order by v.change_id limit :most::int)
delete from changed_value v using oldest o where v.change_id = o.change_id and o.at < :before::timestamptz;

-- name: drop_first_values
-- The same for first values.
with oldest as materialized (
  select v.change_id, v.at from first_values v order by v.change_id limit :most::int)
delete from first_values v using oldest o where v.change_id = o.change_id and o.at < :before::timestamptz;
