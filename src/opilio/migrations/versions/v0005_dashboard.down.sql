drop table saved_view;
drop index policy_by_priority;
drop index result_crawled;
drop index job_archive_finished;
drop table figure_minute;
