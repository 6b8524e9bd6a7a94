-- name: open_state
-- The state of a new project; one that is there already stays as it is.
insert into project_state (project_id, status, tasks_total, items_expected, crawl_total)
values (:project_id, 'PENDING', :tasks_total, :items_expected, :tasks_total)
on conflict (project_id) do nothing;

-- name: lock_states
-- The states that are about to change, in the order of their ids, so that two collectors never wait crosswise.
select project_id from project_state where project_id = any(:project_ids::text[]) order by project_id for no key update;

-- name: count_tallies
-- Counts each identity once and moves the counters by what was new. The states are locked since lock_states.
with sent as materialized (
  select * from unnest(:project_ids::text[], :identities::text[], :tasks_done::bigint[], :tasks_errors::bigint[],
                       :items_actual::bigint[], :items_errors::bigint[], :analyze_total::bigint[],
                       :analyze_done::bigint[], :analyze_errors::bigint[])
    s(project_id, identity, tasks_done, tasks_errors, items_actual, items_errors, analyze_total, analyze_done, analyze_errors)
), fresh as (
  insert into counted_result (project_id, identity) select project_id, identity from sent
  on conflict do nothing
  returning project_id, identity
), gain as (
  select project_id, count(*) as results, sum(tasks_done) as tasks_done, sum(tasks_errors) as tasks_errors,
         sum(items_actual) as items_actual, sum(items_errors) as items_errors, sum(analyze_total) as analyze_total,
         sum(analyze_done) as analyze_done, sum(analyze_errors) as analyze_errors
  from sent join fresh using (project_id, identity) group by project_id
), moved as (
  update project_state s set
    tasks_done = s.tasks_done + g.tasks_done, tasks_errors = s.tasks_errors + g.tasks_errors,
    items_actual = s.items_actual + g.items_actual, items_errors = s.items_errors + g.items_errors,
    analyze_total = s.analyze_total + g.analyze_total, analyze_done = s.analyze_done + g.analyze_done,
    analyze_errors = s.analyze_errors + g.analyze_errors, version = s.version + g.results,
    status = case
      when s.status = 'DONE' then 'DONE'
      when (case when s.tasks_total = 0 then s.items_actual + g.items_actual + s.items_errors + g.items_errors >= s.crawl_total
                 else s.tasks_done + g.tasks_done + s.tasks_errors + g.tasks_errors >= s.tasks_total end)
       and (s.analyze_total + g.analyze_total = 0
            or s.analyze_done + g.analyze_done + s.analyze_errors + g.analyze_errors >= s.analyze_total + g.analyze_total)
        then 'DONE'
      else 'PROCESSING' end
  from gain g where s.project_id = g.project_id
)
select project_id, identity from fresh;

-- name: read_state
select status, tasks_total, tasks_done, tasks_errors, items_expected, items_actual, items_errors,
       analyze_total, analyze_done, analyze_errors, crawl_total, crawl_done, crawl_errors
from project_state where project_id = :project_id;

-- name: changed_states
-- Projects whose newest state was not told yet.
select project_id, version, status, tasks_total, tasks_done, tasks_errors, items_expected, items_actual, items_errors,
       analyze_total, analyze_done, analyze_errors, crawl_total, crawl_done, crawl_errors
from project_state where version > told_version limit :most;

-- name: forget_counted
delete from counted_result where project_id = any(:project_ids::text[]);

-- name: told_states
update project_state s set told_version = t.version
from unnest(:project_ids::text[], :versions::bigint[]) t(project_id, version)
where s.project_id = t.project_id and s.told_version < t.version;
