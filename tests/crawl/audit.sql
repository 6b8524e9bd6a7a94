-- What must hold on every database, at every moment between two transactions: each row that this finds is a fault.
with walk as (
  select t.*, lag(t.to_state) over (partition by t.job_id order by t.step) as stood from job_timeline t
  -- The steps of a waiting job that went with its policy stay until they are dropped by age.
  where exists (select 1 from job j where j.job_id = t.job_id)),
locks as (
  select s.job_id, s.lock_token from job_step s where s.lock_token is not null
  union all
  select j.job_id, j.lock_token from job j where j.lock_token is not null),
told as (
  select l.data ->> 'job_id' as job_id from event_log l where l.type like 'crawl.job.%'),
ends as (  -- a job that was reset after its end ends once more
  select a.job_id, 1 + (select count(*) from job_step s where s.job_id = a.job_id
    and (s.from_state = 'failed' or (s.from_state = 'expired' and s.reason = 'reset for re-execution'))) as times
  from job_archive a),
spans as (
  select t.job_id, t.at as since, lead(t.at, 1, 'infinity') over (partition by t.job_id order by t.step) as until, t.to_state, t.step
  from job_timeline t)
select 'an enabled policy is neither due nor has a job' as fault, s.policy_id::text as subject
from policy_state s
where s.enabled
  and not exists (select 1 from policy_due d where d.policy_id = s.policy_id)
  and not exists (select 1 from job_active j where j.policy_id = s.policy_id)
union all
select 'a policy has two active jobs', policy_id::text from job_active group by policy_id having count(*) > 1
union all
select 'a job is active and ended', job_id::text from job_active join job_archive using (job_id)
union all
select 'a job ended twice', job_id::text from job_archive group by job_id having count(*) > 1
union all
select 'a job has two results', job_id::text from stored_result group by job_id having count(*) > 1
union all
select 'a done job has no result', a.job_id::text from job_archive a
where a.status = 'done' and a.reason is distinct from 'not modified' and not exists (select 1 from stored_result r where r.job_id = a.job_id and r.result_id = coalesce(a.outcome_id, a.result_id))
union all
select 'a job has a result that it did not end with', j.job_id::text from stored_result r join job j on j.job_id = r.job_id
where j.status <> 'done' or j.result_id <> r.result_id
union all
select 'an end was not told, or told twice', e.job_id::text from ends e
left join (select t.job_id, count(*) as times from told t group by t.job_id) t on t.job_id = e.job_id::text
where e.times <> coalesce(t.times, 0)
union all
select 'a lock token was used twice', lock_token::text from locks group by lock_token having count(*) > 1
union all
select 'a token was accepted twice', s.lock_token::text from job_step s join job_archive a using (job_id, lock_token)
where s.answer is not null and archived_answer(a) is not null
union all
select 'a timeline does not begin with creation', job_id::text from walk where stood is null and from_state is not null
union all
select 'a timeline jumps', job_id::text from walk where from_state is distinct from stood
union all
select 'a timeline goes back in time', job_id::text from spans where since > until
union all
select 'a timeline does not end where the job stands', j.job_id::text from job j
where j.status <> (select t.to_state from job_timeline t where t.job_id = j.job_id order by t.step desc limit 1)
union all
select 'two locks on one job overlap', a.job_id::text from spans a join spans b on b.job_id = a.job_id and b.step > a.step
where a.to_state = 'locked' and b.to_state = 'locked' and b.since < a.until
union all
select 'a job of a host with limits waits behind no gate', j.job_id::text from job_active j
where j.place = 'gated' and not exists (select 1 from gate g where g.host_id = j.host_id and g.queue = j.queue)
union all
select 'a gate hides better work than it says', g.host_id || ' ' || g.queue from gate g
where g.top_priority < (select max(j.priority) from job_active j
                        where j.host_id = g.host_id and j.queue = g.queue and j.place = 'gated')
union all
select 'more jobs are locked than a host allows', h.name from host h
where h.max_concurrent < (select count(*) from job_active j where j.host_id = h.host_id and j.place = 'locked')
union all
select 'a job spent more retries than it has', job_id::text from job where retry_count > max_retries
union all
select 'a job lost its policy', j.job_id::text from job j where not exists (select 1 from policy p where p.policy_id = j.policy_id);
