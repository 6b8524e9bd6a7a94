-- name: report_progress
-- The newest state of a subject overwrites the one before; after the final one nothing is taken any more.
with kept as (
  insert into webhook_progress (subject, endpoint_id, version, body, final, trace_id, waiting, next_at, updated_at)
  values (:subject, :endpoint_id, :version, :body, :final, :trace_id, true, coalesce(:now::timestamptz, now()),
          coalesce(:now::timestamptz, now()))
  on conflict (subject) do update
  set endpoint_id = excluded.endpoint_id, version = excluded.version, body = excluded.body, final = excluded.final,
      trace_id = excluded.trace_id, waiting = true, updated_at = excluded.updated_at
  where webhook_progress.version < excluded.version and not webhook_progress.final
  returning 1
)
select count(pg_notify('opilio_progress', '')) from kept;

-- name: take_progress
-- States that wait and whose second has passed.
select p.subject, p.endpoint_id
from webhook_progress p join webhook_gate g using (endpoint_id)
where p.waiting and p.next_at <= coalesce(:now::timestamptz, now()) and g.active
order by p.next_at
limit :most
for update of p skip locked;

-- name: supersede
-- An older state that has not arrived yet is not sent any more. The gates are locked by the caller.
update webhook_delivery d
set state = 'superseded', head = false, finished_at = coalesce(:now::timestamptz, now())
from unnest(:endpoint_ids::uuid[], :subjects::text[]) s(endpoint_id, subject)
where d.endpoint_id = s.endpoint_id and d.subject = s.subject and d.state = 'pending' and d.cause = 'direct';

-- name: release_progress
-- The newest state becomes a delivery, at most one in a second.
with taken as (
  update webhook_progress p
  set waiting = false, next_at = coalesce(:now::timestamptz, now()) + make_interval(secs => :pace)
  where p.subject = any(:subjects::text[])
  returning p.subject, p.endpoint_id, p.body
)
insert into webhook_delivery (endpoint_id, subject, webhook_id, type, cause, body, state, head, next_at, created_at)
select t.endpoint_id, t.subject, opilio_uuid7()::text, 'project.progress', 'direct', t.body, 'pending',
       not exists (select 1 from webhook_delivery d where d.endpoint_id = t.endpoint_id and d.subject = t.subject and d.head),
       coalesce(:now::timestamptz, now()), coalesce(:now::timestamptz, now())
from taken t;

-- name: next_progress
select extract(epoch from min(p.next_at) - coalesce(:now::timestamptz, now()))::double precision
from webhook_progress p join webhook_gate g using (endpoint_id) where p.waiting and g.active;
