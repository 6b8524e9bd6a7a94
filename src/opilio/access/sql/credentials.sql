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

-- name: find_bot_by_token
-- The bot that a valid token belongs to.
select bot_id from bot_token where hash = :hash::bytea and revoked_at is null;

-- name: list_bot_tokens
-- The tokens of a bot, newest first; never the secrets.
select token_id, created_at, revoked_at from bot_token where bot_id = :bot_id::text order by token_id desc;

-- name: add_key
-- A new API key.
insert into api_key (name, hash, scope) values (:name::text, :hash::bytea, :scope::text) returning key_id;

-- name: find_key_by_secret
-- The valid API key of a secret.
select name, scope from api_key where hash = :hash::bytea and revoked_at is null;

-- name: list_keys
-- All keys, newest first; never the secrets.
select key_id, name, scope, created_at, revoked_at from api_key order by key_id desc;

-- name: revoke_key
-- Revokes a key by id or name.
update api_key set revoked_at = now()
where revoked_at is null and (key_id::text = :key::text or name = :key::text);
