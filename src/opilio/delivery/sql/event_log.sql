-- name: list_events
-- Events, newest first.
select seq, event_id, type, subject, occurred_at, logged_at, body
from event_log
where (:before::bigint is null or seq < :before::bigint)
  and (:type_regex::text is null or type ~ :type_regex::text)
  and (:since::timestamptz is null or (logged_at >= :since::timestamptz and occurred_at >= :since::timestamptz))
order by seq desc
limit :most;

-- name: list_events_of_subject
-- Events of one subject, newest first: those in rows of their own, and those that jobs carry, found by the policies that have or had the URL.
with limits as materialized (
  select coalesce(:before::bigint, 9223372036854775807) as before, coalesce(:since::timestamptz, '-infinity') as since),
policies as materialized (
  select p.policy_id from policy p where p.url = :subject::text and p.deleted_at is null
  union select f.policy_id from former_url f where f.url_hash = hashtextextended(:subject::text, 0))
select v.seq, v.event_id, v.type, v.subject, v.occurred_at, v.logged_at, v.body from (
  (select e.seq, e.event_id, e.type, e.subject, e.occurred_at, e.logged_at, event_body(e) as body from event e
   where e.subject = :subject::text and e.seq < (select before from limits)
     and (:type_regex::text is null or e.type ~ :type_regex::text)
     and e.logged_at >= (select since from limits) and e.occurred_at >= (select since from limits)
   order by e.seq desc limit :most)
  union all
  (select a.seq, a.outcome_id, 'crawl.job.completed', a.subject, a.finished_at, a.finished_at, archived_event_body(a) from job_archive a
   where a.policy_id = any(array(select policy_id from policies)) and a.subject = :subject::text and a.seq < (select before from limits)
     and (:type_regex::text is null or 'crawl.job.completed' ~ :type_regex::text) and a.finished_at >= (select since from limits)
   order by a.seq desc limit :most)) v
order by v.seq desc
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
