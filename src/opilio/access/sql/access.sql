-- name: add_bot
-- A bot gets a row when it first gets a token.
insert into bot (bot_id) values (:bot_id::text) on conflict (bot_id) do nothing;

-- name: add_bot_token
-- A new token; several may be valid at once.
insert into bot_token (bot_id, hash) values (:bot_id::text, :hash::bytea) returning token_id;

-- name: revoke_bot_tokens
-- Revokes one token of a bot, or all of them.
update bot_token set revoked_at = now()
where bot_id = :bot_id::text and revoked_at is null and (:token_id::uuid is null or token_id = :token_id::uuid);

-- name: bot_of_token
-- Whose token this is.
select bot_id, token_id from bot_token where hash = :hash::bytea and revoked_at is null;

-- name: bot_tokens
-- The tokens of a bot, newest first; never the secrets.
select token_id, created_at, revoked_at from bot_token where bot_id = :bot_id::text order by token_id desc;

-- name: add_key
-- A new API key.
insert into api_key (name, hash, scope) values (:name::text, :hash::bytea, :scope::text) returning key_id;

-- name: key_of_secret
-- The key that a secret opens.
select key_id, name, scope from api_key where hash = :hash::bytea and revoked_at is null;

-- name: keys
-- All keys, newest first; never the secrets.
select key_id, name, scope, created_at, revoked_at from api_key order by key_id desc;

-- name: revoke_key
-- Revokes a key by id or name.
update api_key set revoked_at = now()
where revoked_at is null and (key_id::text = :key::text or name = :key::text);

-- name: operators
-- All operators.
select operator_id, name, role, created_at, disabled_at, password_hash is not null as has_password
from operator order by name;

-- name: find_operator
-- One operator by name.
select operator_id, name, role, password_hash from operator where name = :name::text and disabled_at is null;

-- name: add_operator
-- A new operator, or the one of that name.
insert into operator (name, role) values (:name::text, :role::text)
on conflict (name) do update set disabled_at = null
returning operator_id;

-- name: has_password
-- Whether anybody has chosen a password yet.
select exists (select 1 from operator where password_hash is not null and disabled_at is null);

-- name: set_password
-- A password, as its argon2 hash.
update operator set password_hash = :password_hash::text where operator_id = :operator_id::uuid;

-- name: add_login_link
-- A link that logs in once.
insert into login_link (hash, operator_id, expires_at) values (:hash::bytea, :operator_id::uuid, now() + :life::interval);

-- name: peek_login_link
-- Whose link this is, while it can still be used.
select l.operator_id, o.name from login_link l join operator o using (operator_id)
where l.hash = :hash::bytea and l.used_at is null and l.expires_at > now() and o.disabled_at is null;

-- name: use_login_link
-- Uses a link up; nobody can use it twice.
update login_link set used_at = now()
where hash = :hash::bytea and used_at is null and expires_at > now() returning operator_id;

-- name: add_session
-- A new session.
insert into operator_session (hash, operator_id, csrf_token, expires_at)
values (:hash::bytea, :operator_id::uuid, :csrf_token::text, now() + :life::interval);

-- name: session_of_secret
-- The operator behind a session.
select o.operator_id, o.name, o.role, s.csrf_token from operator_session s join operator o using (operator_id)
where s.hash = :hash::bytea and s.expires_at > now() and o.disabled_at is null;

-- name: end_session
-- Logs out.
delete from operator_session where hash = :hash::bytea;

-- name: forget_old
-- Drops sessions and links that ended.
with links as (delete from login_link where expires_at < now() - interval '1 day')
delete from operator_session where expires_at < now();

-- name: change_operator
-- A new role, or access taken away or given back; refused by zero rows where it would leave no admin.
update operator o set role = coalesce(:role::text, o.role),
  disabled_at = case when :disabled::boolean is null then o.disabled_at when :disabled::boolean then now() end
where o.name = :name::text and (
  (coalesce(:role::text, o.role) = 'admin' and not coalesce(:disabled::boolean, false))
  or exists (select 1 from operator x where x.name <> o.name and x.role = 'admin' and x.disabled_at is null));

-- name: end_sessions_of
-- Whoever is shut out is out at once.
delete from operator_session s using operator o
where o.operator_id = s.operator_id and o.name = :name::text and o.disabled_at is not null;
