drop table counted_result, project_state, project_warning, task, project;
