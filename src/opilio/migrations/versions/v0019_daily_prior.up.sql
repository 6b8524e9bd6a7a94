-- 24 floats: how likely a page of the host changes daily in each hour (UTC); null: like everywhere.
alter table host add column daily_prior bytea;
