insert into former_host (host_id, policy_id)
select distinct a.host_id, a.policy_id from job_archive a join policy p on p.policy_id = a.policy_id
where a.host_id <> p.host_id and exists (select 1 from host h where h.host_id = a.host_id)
on conflict do nothing;
