create index job_active_of_bot on job_active (locked_by) where place = 'locked';
