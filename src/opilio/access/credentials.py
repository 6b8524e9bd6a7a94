"""Bot tokens and API keys: what is sent as `Authorization: Bearer …`."""

import time
from uuid import UUID

import msgspec

from opilio import audit
from opilio.access.identity import SCOPES, Bot, Operator
from opilio.access.secrets import BOT, KEY, digest, new_secret
from opilio.adapters.postgres import Database, Row, load_queries
from opilio.contracts.bot_api import BotId
from opilio.errors import Invalid, NotFound, Refused

_SQL = load_queries("opilio.access")
# NOTIFY empties the cache when something is revoked; this bound holds for a process that missed it.
_CACHE_SECONDS = 5.0
_CACHE_SIZE = 10_000


class Credentials:
    """Creates, checks and revokes tokens and keys; each change writes its audit row in the same transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._cache: dict[bytes, tuple[float, Bot | Operator]] = {}

    async def authenticate(self, secret: str) -> Bot | Operator:
        """The bot or operator that a token or key belongs to."""
        hashed = digest(secret)
        cached = self._cache.get(hashed)
        if cached and cached[0] > time.monotonic():
            return cached[1]
        found = await self._find(secret, hashed)
        if len(self._cache) >= _CACHE_SIZE:
            self._cache.clear()
        self._cache[hashed] = (time.monotonic() + _CACHE_SECONDS, found)
        return found

    async def _find(self, secret: str, hashed: bytes) -> Bot | Operator:
        if secret.startswith(BOT) and (row := await self._db.row(_SQL.find_bot_by_token, hash=hashed)):
            return Bot(row["bot_id"])
        if secret.startswith(KEY) and (row := await self._db.row(_SQL.find_key_by_secret, hash=hashed)):
            return Operator(f"key:{row['name']}", row["scope"])
        raise Refused("unauthorized", "the token or API key is unknown or was revoked")

    def clear_cache(self) -> None:
        """Called when a credential was revoked, by this process or another."""
        self._cache.clear()

    # ── bot tokens ───────────────────────────────────────────────────────────────────────────────

    async def new_bot_token(self, bot_id: str, *, by: str = "system") -> tuple[UUID, str]:
        try:
            msgspec.convert(bot_id, BotId)
        except msgspec.ValidationError:
            raise Invalid("bot_id", "must be 1 to 100 letters, digits or . _ : @ -") from None
        secret = new_secret(BOT)
        async with self._db.transaction() as session:
            await session.execute(_SQL.add_bot, bot_id=bot_id)
            token_id: UUID = await session.value(_SQL.add_bot_token, bot_id=bot_id, hash=digest(secret))
            await audit.record(session, by, "bot.token", bot_id, {"id": token_id})
        return token_id, secret

    async def revoke_bot_tokens(
        self, bot_id: str, token_id: UUID | None = None, *, by: str = "system"
    ) -> int:
        """Revokes one token, or all tokens of the bot."""
        async with self._db.transaction() as session:
            count = await session.execute(_SQL.revoke_bot_tokens, bot_id=bot_id, token_id=token_id)
            if not count:
                raise NotFound("the bot %(bot_id)s has no such valid token", bot_id=bot_id)
            await audit.record(session, by, "bot.revoke", bot_id, {"id": token_id, "revoked": count})
        await self._clear_cache_everywhere()
        return count

    async def bot_tokens(self, bot_id: str) -> list[Row]:
        return await self._db.fetch(_SQL.list_bot_tokens, bot_id=bot_id)

    # ── API keys ─────────────────────────────────────────────────────────────────────────────────

    async def new_key(self, name: str, scope: str, *, by: str = "system") -> tuple[UUID, str]:
        if scope not in SCOPES:
            raise Invalid("scope", "must be one of %(scopes)s", scopes=", ".join(SCOPES))
        if not 1 <= len(name) <= 100 or not name.isprintable():
            raise Invalid("name", "must be 1 to 100 printable characters")
        secret = new_secret(KEY)
        async with self._db.transaction() as session:
            key_id: UUID = await session.value(_SQL.add_key, name=name, hash=digest(secret), scope=scope)
            await audit.record(session, by, "key.create", name, {"id": key_id, "scope": scope})
        return key_id, secret

    async def keys(self) -> list[Row]:
        return await self._db.fetch(_SQL.list_keys)

    async def revoke_key(self, key: str, *, by: str = "system") -> int:
        """Revokes a key by its id, or every key of a name."""
        async with self._db.transaction() as session:
            count = await session.execute(_SQL.revoke_key, key=key)
            if not count:
                raise NotFound("there is no valid API key with the id or name %(key)s", key=key)
            await audit.record(session, by, "key.revoke", key, {"revoked": count})
        await self._clear_cache_everywhere()
        return count

    async def _clear_cache_everywhere(self) -> None:
        self.clear_cache()
        await self._db.notify("opilio_access")
