-- name: prepare_partition
-- The partition that holds a moment, made ahead of time.
select opilio_partition(:parent::text, :unit::text, :at::timestamptz);

-- name: partitions
-- The partitions of a history table with the end of what they hold.
select c.relname::text as name, (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz as ends_at
from pg_inherits i join pg_class c on c.oid = i.inhrelid
where i.inhparent = (:parent::text)::regclass
order by 2 nulls last;

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
