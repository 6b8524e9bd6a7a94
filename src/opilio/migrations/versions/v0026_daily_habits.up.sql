-- 24 floats each, fitted at night: the probability that an unknown page changes daily in each hour (UTC).
alter table host add column prior_hours bytea;
alter table crawl_pool add column prior_hours bytea;
