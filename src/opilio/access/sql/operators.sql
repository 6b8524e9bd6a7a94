-- name: list_operators
-- All operators, by name.
select operator_id, name, role, created_at, disabled_at, password_hash is not null as has_password
from operator order by name;

-- name: find_operator
-- One operator who may log in, by name.
select operator_id, name, role, password_hash from operator where name = :name::text and disabled_at is null;

-- name: has_operators
-- Whether anybody was ever invited.
select exists (select 1 from operator);

-- name: add_operator
-- A new operator; an existing one keeps the role and is enabled again.
insert into operator (name, role) values (:name::text, :role::text)
on conflict (name) do update set disabled_at = null
returning operator_id;

-- name: has_password
-- Whether any operator has chosen a password yet.
select exists (select 1 from operator where password_hash is not null and disabled_at is null);

-- name: set_password
-- Stores a password as its argon2 hash.
update operator set password_hash = :password_hash::text where operator_id = :operator_id::uuid;

-- name: add_login_link
-- A link that logs in once.
insert into login_link (hash, operator_id, expires_at) values (:hash::bytea, :operator_id::uuid, now() + :life::interval);

-- name: find_login_link
-- The operator of a link that can still be used.
select l.operator_id, o.name from login_link l join operator o using (operator_id)
where l.hash = :hash::bytea and l.used_at is null and l.expires_at > now() and o.disabled_at is null;

-- name: use_login_link
-- Marks a link as used; zero rows if somebody else was first.
update login_link l set used_at = now() from operator o
where l.hash = :hash::bytea and l.used_at is null and l.expires_at > now()
  and o.operator_id = l.operator_id and o.disabled_at is null
returning o.operator_id, o.name;

-- name: cancel_login_links
-- After a new password no older link may set another.
update login_link set used_at = now() where operator_id = :operator_id::uuid and used_at is null;

-- name: add_session
-- A new session.
insert into operator_session (hash, operator_id, csrf_token, expires_at)
values (:hash::bytea, :operator_id::uuid, :csrf_token::text, now() + :life::interval);

-- name: find_session
-- The operator of a session.
select o.operator_id, o.name, o.role, o.password_hash, s.csrf_token
from operator_session s join operator o using (operator_id)
where s.hash = :hash::bytea and s.expires_at > now() and o.disabled_at is null;

-- name: list_sessions
-- The sessions of a session's operator, newest first.
select s.created_at, s.expires_at, s.hash = :hash::bytea as is_this from operator_session s
where s.operator_id = (select x.operator_id from operator_session x where x.hash = :hash::bytea) and s.expires_at > now()
order by s.created_at desc limit 100;

-- name: end_session
-- Logs out; returns whose session it was.
delete from operator_session s using operator o
where s.hash = :hash::bytea and o.operator_id = s.operator_id returning o.name;

-- name: end_other_sessions
-- Ends the sessions of an operator, except one (null: all).
delete from operator_session
where operator_id = :operator_id::uuid and (:kept::bytea is null or hash <> :kept::bytea);

-- name: delete_expired_logins
-- Deletes expired sessions and links.
with links as (delete from login_link where expires_at < now() - interval '1 day')
delete from operator_session where expires_at < now();

-- name: change_operator
-- A new role, or disabled or enabled; zero rows where that would leave no admin.
update operator o set role = coalesce(:role::text, o.role),
  disabled_at = case when :disabled::boolean is null then o.disabled_at when :disabled::boolean then now() end
where o.name = :name::text and (
  (coalesce(:role::text, o.role) = 'admin' and not coalesce(:disabled::boolean, false))
  or exists (select 1 from operator x where x.name <> o.name and x.role = 'admin' and x.disabled_at is null));

-- name: end_sessions_of_disabled
-- A disabled operator is logged out at once.
delete from operator_session s using operator o
where o.operator_id = s.operator_id and o.name = :name::text and o.disabled_at is not null;
