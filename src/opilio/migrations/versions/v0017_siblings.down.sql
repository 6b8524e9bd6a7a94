drop table sibling_change;
drop index policy_folder;
drop function opilio_folder(text);
alter table host drop column siblings, drop column sibling_sums;
alter table policy_state drop column surprise, drop column gap_days;
