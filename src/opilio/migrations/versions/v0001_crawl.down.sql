drop view crawl_result, crawl_job, crawl_policy, job_timeline, job;
drop function opilio_partition(text, text, timestamptz);
drop table outbox, audit_log, api_key, operator_session, login_link, operator, bot_activity, bot_token, bot,
  late_result, value_change, result_html, result, job_step, job_archive, gate, job_active,
  policy_due, policy_state, policy, host;
drop function opilio_uuid7();
