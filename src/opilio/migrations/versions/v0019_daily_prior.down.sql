alter table host drop column daily_prior;
