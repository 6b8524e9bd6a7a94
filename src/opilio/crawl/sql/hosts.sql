-- name: set_limits
-- Limits of one host; a host with limits of its own is gated from now on.
insert into host as h (name, max_concurrent, min_delay_seconds, gated)
values (:name::text, :max_concurrent::int, :min_delay_seconds::float8, :gated::boolean)
on conflict (name) do update set
  max_concurrent = excluded.max_concurrent, min_delay_seconds = excluded.min_delay_seconds,
  gated = excluded.gated or h.cooling_until > coalesce(:now::timestamptz, now()), next_at = 'epoch'
returning host_id;

-- name: park_jobs
-- Moves waiting jobs of a host behind its gate, a batch at a time; a pull that meets them does the same.
with batch as materialized (
  select j.job_id from crawl_state j where j.host_id = :host_id::int and j.place = 'free' limit :most::int for update skip locked),
parked as (
  update crawl_state j set place = 'gated' from batch where j.job_id = batch.job_id returning j.host_id, j.queue, j.priority),
woken as (
  insert into gate as g (host_id, queue, top_priority, open_at)
  select p.host_id, p.queue, max(p.priority), coalesce(:now::timestamptz, now()) from parked p group by p.host_id, p.queue order by 1, 2
  on conflict (host_id, queue) do update
    set top_priority = greatest(g.top_priority, excluded.top_priority), version = g.version + 1)
select count(*) from parked;

-- name: hosts_to_park
-- Gated hosts that still have jobs in the common queue; under a fleet's limits that is whoever has any.
(select h.host_id from host h
 where h.gated and exists (select 1 from crawl_state j where j.host_id = h.host_id and j.place = 'free')
 limit 100)
union
select j.host_id from (
  select f.host_id from crawl_state f where f.place = 'free' and :fleet_gated::boolean limit 1000) j;

-- name: open_gate
-- New limits: look at the host again at once.
with ordered as materialized (
  select g.host_id, g.queue from gate g where g.host_id = :host_id::int order by g.queue for update)
update gate g set open_at = coalesce(:now::timestamptz, now()), version = g.version + 1
from ordered o where g.host_id = o.host_id and g.queue = o.queue;
