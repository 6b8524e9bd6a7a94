-- Second step: the rows, so many at a time, each batch in a transaction of its own.
do $$
declare
  ids uuid[];
  last uuid;
begin
  loop
    ids := array(select s.policy_id from policy_state s where last is null or s.policy_id > last order by s.policy_id limit 5000);
    exit when cardinality(ids) = 0;
    perform copy_crawl_state(ids);
    last := ids[cardinality(ids)];
    commit;
  end loop;
  analyze crawl_state;
end $$;
