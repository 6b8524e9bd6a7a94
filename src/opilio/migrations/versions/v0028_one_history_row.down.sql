-- Rows that carry a result and an event become three again, so many at a time; this may be run again.
create or replace function split_history(most int) returns bigint language sql as $$
  with picked as materialized (
    select a.job_id, a.finished_at from job_archive a where a.seq is not null order by a.seq limit most for update),
  carrying as materialized (
    select a.* from picked p join job_archive a on a.job_id = p.job_id and a.finished_at = p.finished_at),
  told as (
    insert into event (seq, event_id, type, subject, data, occurred_at, logged_at, job_id, policy_id, result_id)
    select c.seq, c.outcome_id, 'crawl.job.completed', c.subject,
           jsonb_strip_nulls(jsonb_build_object('bot_id', c.locked_by, 'price', c.price, 'currency', c.currency, 'title', c.title,
             'in_stock', c.in_stock, 'html_hash', c.html_hash, 'crawl_duration', c.crawl_duration, 'changed', c.changed))
           || case when nullif(c.parsed_data, '{}') is null then '{}' else jsonb_build_object('data', c.parsed_data) end,
           c.finished_at, c.finished_at, c.job_id, c.policy_id, c.outcome_id
    from carrying c order by c.seq),
  stored as (
    insert into result (result_id, job_id, policy_id, bot_id, price, currency, title, in_stock, parsed_data, html_hash, crawl_duration, crawled_at)
    select c.outcome_id, c.job_id, c.policy_id, c.locked_by, c.price, c.currency, c.title, c.in_stock, c.parsed_data, c.html_hash,
           c.crawl_duration, c.finished_at
    from carrying c),
  split as (
    update job_archive a set result_id = c.outcome_id, outcome_id = null, seq = null, subject = null, changed = null,
      run_at = coalesce(c.run_at, c.created_at), created_by = coalesce(c.created_by, 'scheduler'),
      locked_until = coalesce(c.locked_until, c.locked_at + make_interval(secs => c.lock_ttl_seconds)),
      finished_by = coalesce(c.finished_by, 'bot:' || c.locked_by), reason = coalesce(c.reason, 'result accepted'),
      answer = jsonb_build_object('price', c.price, 'currency', c.currency) || coalesce(c.answer, '{}')
    from carrying c where a.job_id = c.job_id and a.finished_at = c.finished_at returning 1)
  select count(*) from split
$$;
