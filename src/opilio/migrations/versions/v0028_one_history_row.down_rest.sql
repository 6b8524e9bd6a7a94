-- What was written meanwhile, and then the columns. The strongest lock comes first: whoever has it never waits for those that wait for it.
lock table job_archive in access exclusive mode;
select split_history(1000000000);
drop function split_history(int);
drop index job_archive_outcome, job_archive_seq;
alter table job_archive
  drop column outcome_id, drop column seq, drop column subject, drop column changed, drop column price, drop column currency, drop column title,
  drop column in_stock, drop column parsed_data, drop column html_hash, drop column crawl_duration;
