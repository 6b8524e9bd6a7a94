-- Second step: the rows, so many at a time, each batch in a transaction of its own.
do $$
declare
  ids uuid[];
  last uuid;
begin
  loop
    ids := array(select s.policy_id from crawl_state s where last is null or s.policy_id > last order by s.policy_id limit 5000);
    exit when cardinality(ids) = 0;
    perform copy_old_state(ids);
    last := ids[cardinality(ids)];
    commit;
  end loop;
  analyze old_policy_state;
  analyze old_policy_due;
  analyze old_job_active;
end $$;
