-- name: claim_outbound
-- As claim_outbox: the oldest rows that no other publisher holds, each subject in its order.
with mine as materialized (
  select seq, exchange, routing_key, subject, message_id, correlation_id, headers, body
  from outbound order by seq limit :most for update skip locked
), elsewhere as (
  select o.subject, min(o.seq) as seq
  from outbound o
  where o.seq < (select max(seq) from mine) and o.seq not in (select seq from mine)
  group by o.subject
)
select m.* from mine m left join elsewhere e using (subject)
where e.seq is null or m.seq < e.seq
order by m.seq;

-- name: delete_outbound
delete from outbound where seq = any(:seqs::bigint[]);
