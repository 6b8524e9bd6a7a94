drop view crawl_policy;
create view crawl_policy as
  select p.policy_id as id, p.url, s.enabled, p.frequency_hours, p.priority, p.max_retries, p.retry_backoff_minutes,
         p.timeout_minutes, p.job_queue as queue, p.crawl_config, p.rule_set, p.hot, p.labels, s.next_run_at,
         s.last_success_at, s.last_failed_at, s.failure_count, p.created_at, p.updated_at
  from policy p join policy_state s using (policy_id)
  where p.deleted_at is null;
drop function opilio_digamma(double precision);
drop table crawl_pool;
alter table host drop column prior_shape, drop column prior_days, drop column crawl_price;
drop index policy_due_pool, policy_due_at;
alter table policy_due drop column pool, drop column early_at;
create index policy_due_at on policy_due (due_at);
alter table policy_state drop column last_html_hash, drop column etag, drop column last_modified, drop column rate_shape,
  drop column rate_days, drop column daily_hours, drop column interval_days, drop column price_used, drop column visits,
  drop column changes_seen;
drop index policy_pool;
alter table policy drop column pool;
alter table policy drop column schedule, drop column min_interval_hours, drop column max_interval_hours;
