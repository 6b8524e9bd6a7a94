drop trigger policy_keep_former_host on policy;
drop function opilio_keep_former_host();
drop index policy_deleted;
drop table former_host;
