-- name: notify_work
-- Wakes the pulls that wait, in every process, once this transaction commits.
select pg_notify('opilio_work', '');
