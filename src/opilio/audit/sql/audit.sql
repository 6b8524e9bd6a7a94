-- name: add_entry
-- One audit entry: actor, action, subject, details.
insert into audit_log (actor, action, subject, details)
values (:actor::text, :action::text, :subject::text, :details::jsonb);

-- name: list_entries
-- Newest first, below a known entry.
select audit_id, at, actor, action, subject, details from audit_log
where (:before::bigint is null or audit_id < :before::bigint)
  and (:q::text is null or position(lower(:q::text) in lower(actor || ' ' || action || ' ' || subject || ' ' || details::text)) > 0)
  and (:since::timestamptz is null or at >= :since::timestamptz) and (:until::timestamptz is null or at < :until::timestamptz)
order by audit_id desc limit :limit::int;

-- name: delete_entries
delete from audit_log where audit_id in (select audit_id from audit_log where at < :before order by at limit :most);
