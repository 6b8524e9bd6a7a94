-- In a transaction of its own: whoever writes has read `policy` before, and must not wait for us while we wait for it.
drop trigger if exists policy_keep_former_url on policy;
drop function if exists opilio_keep_former_url();
drop table if exists former_url;
