-- name: read_jobs
-- The jobs of a batch with everything that decides their next state, and the version of the row. What only the rule of
-- adaptive policies reads is null for the others, so that nobody sends and decodes it.
select j.job_id, j.policy_id, j.ctid::text as row_at, j.xmin::text as version, j.host_id, j.place, j.priority, j.base_priority, j.retry_count, j.max_retries,
       j.locked_by, j.locked_at, j.locked_until, j.lock_ttl_seconds, j.lock_token, j.last_error_code,
       p.url, p.frequency_hours, p.retry_backoff_minutes, p.deleted_at, p.pool,
       j.failure_count, j.error_rate, j.last_price, j.last_currency, j.last_title, j.last_in_stock, j.last_data,
       j.last_result_id, j.last_html_hash, j.last_modified,
       case when p.pool is not null then j.last_success_at end as last_success_at,
       case when p.pool is not null then p.priority end as importance, case when p.pool is not null then p.hot end as hot, p.min_interval_hours, p.max_interval_hours, j.rate_shape, j.rate_days, j.daily_hours,
       greatest(b.price, h.crawl_price) as price, coalesce(h.prior_shape, b.prior_shape) as prior_shape,
       coalesce(h.prior_days, b.prior_days) as prior_days, coalesce(h.prior_hours, b.prior_hours) as prior_hours,
       b.longest_days, h.siblings,
       h.name as host, (select exists (select 1 from gate)) and exists (select 1 from gate g where g.host_id = j.host_id) as behind_gate, h.cooling_until, h.strikes,
       (select exists (select 1 from value_alert where enabled)) as any_alerts, false as known, coalesce(:now::timestamptz, now()) as at
from crawl_state j
join policy p on p.policy_id = j.policy_id
join host h on h.host_id = j.host_id
left join crawl_pool b on b.pool = p.pool  -- none for a fixed schedule
where j.job_id = any(:job_ids::uuid[])
order by j.job_id;

-- name: take_ended
-- Jobs of a batch that ended already.
select a.job_id, a.status, a.locked_by, a.lock_token, archived_lock_end(a) as locked_until, a.digest, archived_answer(a)::text as answer
from job_archive a where a.job_id = any(:job_ids::uuid[]);

-- name: past_locks
-- Locks that ended without ending their job, oldest first.
select s.job_id, s.bot_id, s.lock_token, s.digest, s.answer::text as answer, s.by <> 'bot:' || s.bot_id as lost
from job_step s where s.job_id = any(:job_ids::uuid[]) and s.bot_id is not null
order by s.job_id, s.step;

-- name: clock
-- The database's time.
select coalesce(:now::timestamptz, now());
