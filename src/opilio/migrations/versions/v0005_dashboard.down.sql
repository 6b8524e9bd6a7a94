drop table saved_view;
drop index result_crawled;
drop index job_archive_finished;
drop table figure_minute;
