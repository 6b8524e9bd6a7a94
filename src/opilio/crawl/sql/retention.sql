-- name: keep_outcomes
-- Results and events of jobs past their age, as far as they are kept for longer, in the order of their ids, so many at a time; the jobs
-- that carried them go. Answers where the next batch begins: null after the last.
with picked as materialized (
  select a.job_id, a.finished_at, a.outcome_id from job_archive a
  where a.outcome_id > :after::uuid and a.finished_at < :until::timestamptz
  order by a.outcome_id limit :most::int),
gone as (
  delete from job_archive a using picked p
  where a.job_id = p.job_id and a.finished_at = p.finished_at and a.outcome_id = p.outcome_id
  returning a.*, case when a.finished_at >= :events_since::timestamptz then archived_event_data(a) end as event),
results as (
  insert into result (result_id, job_id, policy_id, bot_id, price, currency, title, in_stock, parsed_data, html_hash, crawl_duration, crawled_at)
  select g.outcome_id, g.job_id, g.policy_id, g.locked_by, g.price, g.currency, g.title, g.in_stock, g.parsed_data, g.html_hash,
         g.crawl_duration, g.finished_at
  from gone g where g.finished_at >= :results_since::timestamptz order by g.outcome_id),
events as (
  insert into event (seq, event_id, type, subject, data, occurred_at, logged_at)
  select g.seq, g.outcome_id, 'crawl.job.completed', g.subject, g.event, g.finished_at, g.finished_at
  from gone g where g.event is not null order by g.seq)
select p.outcome_id from picked p order by p.outcome_id desc limit 1;

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
