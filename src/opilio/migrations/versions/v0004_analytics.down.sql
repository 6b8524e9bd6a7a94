drop function post_matches(post_analytics, jsonb);
drop function analytics_forget(timestamptz);
drop table crawl_errors, post_comments, post_analytics, post_identity, analysed_batch;
