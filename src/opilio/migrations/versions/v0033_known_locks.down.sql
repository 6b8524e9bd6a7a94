drop index host_struck;
drop trigger policy_changed on policy;
drop function opilio_policy_changed();
