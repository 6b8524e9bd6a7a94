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

-- name: relayed_places
-- What was handed on so far.
select relayed::text from relay_position;

-- name: relayed_between
-- What was handed on between two looks, in order.
select v.seq, v.event_id, v.type, v.subject, v.occurred_at, v.logged_at, v.body
from unnest(:now::text::int8multirange - :before::text::int8multirange) r
cross join lateral (
  select v.seq, v.event_id, v.type, v.subject, v.occurred_at, v.logged_at, v.body from event_log v
  where v.seq >= lower(r) and v.seq < upper(r) and v.seq > :after::bigint
    and (:type_regex::text is null or v.type ~ :type_regex::text)
  order by v.seq limit :most) v
order by v.seq
limit :most;

-- name: handed_on_since
-- What was handed on at a look, of the events logged since a time, in order.
select v.seq, v.event_id, v.type, v.subject, v.occurred_at, v.logged_at, v.body
from event_log v
where v.logged_at >= :since and v.seq <@ :now::text::int8multirange and v.seq > :after::bigint
  and (:type_regex::text is null or v.type ~ :type_regex::text)
order by v.seq
limit :most;
