drop index job_active_of_bot;
