alter table crawl_pool drop column prior_hours;
alter table host drop column prior_hours;
