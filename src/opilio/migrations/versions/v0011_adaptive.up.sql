-- The pool of a policy is the budget that pays for it; null for a fixed schedule.
alter table policy
  add column schedule text not null default 'fixed' check (schedule in ('fixed', 'adaptive')),
  add column min_interval_hours double precision check (min_interval_hours > 0),
  add column max_interval_hours double precision check (max_interval_hours > 0);
alter table policy
  add column pool text generated always as (case when schedule = 'adaptive' then coalesce(labels ->> 'pool', '') end) stored;
create index policy_pool on policy (pool) where pool is not null and deleted_at is null;

-- What was learnt: evidence on top of a prior, so that priors can be refitted. Null until a visit taught something.
alter table policy_state
  add column last_html_hash text,
  add column etag text,
  add column last_modified text,
  add column rate_shape double precision,
  add column rate_days double precision,
  add column daily_hours bytea,          -- 24 floats: evidence for a daily change in each hour (UTC)
  add column interval_days double precision,
  add column price_used double precision,
  add column visits int not null default 0,
  add column changes_seen int not null default 0;

-- Adaptive policies are due within their budget, fixed ones whenever their time has come.
alter table policy_due add column pool text, add column early_at timestamptz;
drop index policy_due_at;
create index policy_due_at on policy_due (due_at) where pool is null;
create index policy_due_pool on policy_due (pool, due_at) where pool is not null;

alter table host
  add column prior_shape double precision,
  add column prior_days double precision,
  add column crawl_price double precision;  -- set while the host's own limit binds

create table crawl_pool (
  pool            text primary key,
  budget_per_day  double precision,         -- null until the first refit
  price           double precision,
  delta           double precision not null default 0,
  prior_shape     double precision,
  prior_days      double precision,
  longest_days    double precision not null default 30,
  tokens          double precision not null default 0,  -- crawls that may be made now
  tokens_at       timestamptz,
  created         bigint not null default 0,            -- jobs made within the budget, ever
  created_before  bigint not null default 0,            -- … at the last refit
  pages           int not null default 0,
  demand          double precision not null default 0,  -- crawls a day that the stored plans ask for
  freshness       double precision,                     -- expected, weighted
  refitted_at     timestamptz,
  priors_at       timestamptz
) with (fillfactor = 50);

-- The logarithmic derivative of the gamma function, for positive numbers, to eight digits.
create function opilio_digamma(x double precision) returns double precision language sql immutable parallel safe as $$
  select ln(x + 6) - 0.5 / (x + 6) - 1 / (12 * (x + 6) ^ 2) + 1 / (120 * (x + 6) ^ 4)
    - (1 / x + 1 / (x + 1) + 1 / (x + 2) + 1 / (x + 3) + 1 / (x + 4) + 1 / (x + 5))
$$;

create or replace view crawl_policy as
  select p.policy_id as id, p.url, s.enabled, p.frequency_hours, p.priority, p.max_retries, p.retry_backoff_minutes,
         p.timeout_minutes, p.job_queue as queue, p.crawl_config, p.rule_set, p.hot, p.labels, s.next_run_at,
         s.last_success_at, s.last_failed_at, s.failure_count, p.created_at, p.updated_at,
         p.schedule, p.min_interval_hours, p.max_interval_hours
  from policy p join policy_state s using (policy_id)
  where p.deleted_at is null;
