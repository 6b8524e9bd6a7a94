alter table policy_state drop column brought_forward_at;
