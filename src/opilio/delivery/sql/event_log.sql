-- name: list_events
-- Events, newest first.
select seq, event_id, type, subject, occurred_at, logged_at, body
from event_log
where (:before::bigint is null or seq < :before::bigint)
  and (:type_regex::text is null or type ~ :type_regex::text)
  and (:subject::text is null or subject = :subject::text)
  and (:since::timestamptz is null or (logged_at >= :since::timestamptz and occurred_at >= :since::timestamptz))
order by seq desc
limit :most;

-- name: find_event
select seq, event_id, type, subject, occurred_at, logged_at, body from event_log where event_id = :event_id limit 1;

-- name: recent_events
-- What was logged after a position, oldest first.
select seq, event_id, type, subject, occurred_at, logged_at, body
from event_log
where logged_at >= :logged_at and (logged_at, seq) > (:logged_at, :seq::bigint)
  and (:type_regex::text is null or type ~ :type_regex::text)
order by logged_at, seq
limit :most;

-- name: database_time
select now();
