-- name: drop_late
-- Late results past their age.
delete from late_result where received_at < :before::timestamptz;

-- name: drop_activity
-- Bot activity past its age.
delete from bot_activity where hour < :before::timestamptz;

-- name: drop_policies
-- Deleted policies that nothing refers to any more.
delete from policy p where p.deleted_at < :before::timestamptz
  and not exists (select 1 from job_active j where j.policy_id = p.policy_id)
  and not exists (select 1 from job_archive a where a.policy_id = p.policy_id)
  and not exists (select 1 from result r where r.policy_id = p.policy_id);
