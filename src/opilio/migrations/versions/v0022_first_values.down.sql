drop view value_change;
drop function add_value_change();
drop function delete_value_change();
insert into changed_value (change_id, policy_id, job_id, field, new, at) overriding system value
select f.change_id + s.place - 1, f.policy_id, f.job_id, s.value ->> 0, s.value -> 1, f.at
from first_values f cross join lateral jsonb_array_elements(f.seen) with ordinality s(value, place);
drop table first_values;
select setval('value_change_change_id_seq', nextval('value_change_change_id_seq') + 64);  -- beyond the ids of the last row
alter table changed_value alter column change_id set increment by 1;
alter table changed_value rename to value_change;
