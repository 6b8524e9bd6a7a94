"""Gives out and checks credentials."""

import asyncio
import time
from datetime import timedelta
from functools import cache
from uuid import UUID

import msgspec
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from opilio.access.identity import SCOPE_OF_ROLE, SCOPES, Bot, Operator
from opilio.access.secrets import BOT, KEY, LINK, SESSION, digest, new_secret
from opilio.adapters.postgres import Database, Row, load_queries
from opilio.contracts.bot_api import BotId
from opilio.errors import Invalid, NotFound, Refused

_Q = load_queries("opilio.access")
_LINK_LIFE = timedelta(minutes=30)
_SESSION_LIFE = timedelta(days=14)
_SHORTEST_PASSWORD = 10
# A revoked token is forgotten at once by NOTIFY; this bound holds where that went unheard.
_REMEMBERED_SECONDS = 5.0
_MOST_REMEMBERED = 10_000


class Credentials:
    """Tokens, keys, links, passwords and sessions."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._hasher = PasswordHasher()
        self._remembered: dict[bytes, tuple[float, Bot | Operator]] = {}

    # ── who speaks ───────────────────────────────────────────────────────────────────────────────

    async def bearer(self, secret: str) -> Bot | Operator:
        """The bot or operator behind `Authorization: Bearer …`."""
        hashed = digest(secret)
        known = self._remembered.get(hashed)
        if known and known[0] > time.monotonic():
            return known[1]
        found = await self._look_up(secret, hashed)
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[hashed] = (time.monotonic() + _REMEMBERED_SECONDS, found)
        return found

    async def _look_up(self, secret: str, hashed: bytes) -> Bot | Operator:
        if secret.startswith(BOT) and (row := await self._db.row(_Q.bot_of_token, hash=hashed)):
            return Bot(row["bot_id"])
        if secret.startswith(KEY) and (row := await self._db.row(_Q.key_of_secret, hash=hashed)):
            return Operator(f"key:{row['name']}", row["scope"])
        raise Refused("unauthorized", "the token or key is unknown or was revoked")

    def forget(self) -> None:
        """Credentials changed somewhere: look everything up again."""
        self._remembered.clear()

    async def session(self, secret: str) -> Operator | None:
        row = await self._db.row(_Q.session_of_secret, hash=digest(secret))
        if row is None:
            return None
        return Operator(f"operator:{row['name']}", SCOPE_OF_ROLE[row["role"]], row["csrf_token"])

    # ── bots ─────────────────────────────────────────────────────────────────────────────────────

    async def new_bot_token(self, bot_id: str) -> tuple[UUID, str]:
        try:
            msgspec.convert(bot_id, BotId)
        except msgspec.ValidationError:
            raise Invalid("bot_id", "must be 1 to 100 letters, digits or . _ : @ -") from None
        secret = new_secret(BOT)
        async with self._db.transaction() as session:
            await session.execute(_Q.add_bot, bot_id=bot_id)
            token_id: UUID = await session.value(_Q.add_bot_token, bot_id=bot_id, hash=digest(secret))
        return token_id, secret

    async def revoke_bot_tokens(self, bot_id: str, token_id: UUID | None = None) -> int:
        count = await self._db.execute(_Q.revoke_bot_tokens, bot_id=bot_id, token_id=token_id)
        if not count:
            raise NotFound(f"the bot {bot_id} has no such valid token")
        await self._tell_everyone()
        return count

    async def bot_tokens(self, bot_id: str) -> list[Row]:
        return await self._db.fetch(_Q.bot_tokens, bot_id=bot_id)

    # ── keys ─────────────────────────────────────────────────────────────────────────────────────

    async def new_key(self, name: str, scope: str) -> tuple[UUID, str]:
        if scope not in SCOPES:
            raise Invalid("scope", f"must be one of {', '.join(SCOPES)}")
        if not 1 <= len(name) <= 100 or not name.isprintable():
            raise Invalid("name", "must be 1 to 100 printable characters")
        secret = new_secret(KEY)
        key_id: UUID = await self._db.value(_Q.add_key, name=name, hash=digest(secret), scope=scope)
        return key_id, secret

    async def keys(self) -> list[Row]:
        return await self._db.fetch(_Q.keys)

    async def revoke_key(self, key: str) -> int:
        count = await self._db.execute(_Q.revoke_key, key=key)
        if not count:
            raise NotFound(f"there is no valid key with the id or name {key}")
        await self._tell_everyone()
        return count

    async def _tell_everyone(self) -> None:
        self.forget()
        await self._db.notify("opilio_access")

    # ── operators ────────────────────────────────────────────────────────────────────────────────

    async def has_password(self) -> bool:
        return bool(await self._db.value(_Q.has_password))

    async def login_link(self, name: str = "admin", role: str = "admin") -> str:
        """The secret of a link that logs in once and lets the operator choose a password."""
        secret = new_secret(LINK)
        async with self._db.transaction() as session:
            operator_id = await session.value(_Q.add_operator, name=name, role=role)
            await session.execute(
                _Q.add_login_link, hash=digest(secret), operator_id=operator_id, life=_LINK_LIFE
            )
        return secret

    async def owner_of_link(self, secret: str) -> str | None:
        row = await self._db.row(_Q.peek_login_link, hash=digest(secret))
        return None if row is None else str(row["name"])

    async def use_link(self, secret: str, password: str) -> str:
        """Sets the password and opens a session; the link is used up."""
        hashed = await self._hash(password)
        async with self._db.transaction() as session:
            operator_id = await session.value(_Q.use_login_link, hash=digest(secret))
            if operator_id is None:
                raise Refused(
                    "unauthorized",
                    "this login link was used already or is too old; `opilio login` prints a new one",
                )
            await session.execute(_Q.set_password, operator_id=operator_id, password_hash=hashed)
        return await self._open_session(operator_id)

    async def log_in(self, name: str, password: str) -> str:
        row = await self._db.row(_Q.find_operator, name=name)
        # An unknown name costs as much time as a wrong password, so that names cannot be probed.
        stored = row["password_hash"] if row and row["password_hash"] else await asyncio.to_thread(_nobody)
        if not await self._verify(stored, password) or row is None:
            raise Refused("unauthorized", "the name or the password is wrong")
        return await self._open_session(row["operator_id"])

    async def log_out(self, secret: str) -> None:
        await self._db.execute(_Q.end_session, hash=digest(secret))

    async def operators(self) -> list[Row]:
        return await self._db.fetch(_Q.operators)

    async def change_operator(
        self, name: str, *, role: str | None = None, disabled: bool | None = None
    ) -> None:
        """Another role, or access taken away or given back; somebody must remain who can undo it."""
        if role is not None and role not in SCOPE_OF_ROLE:
            raise Invalid("role", f"must be one of {', '.join(SCOPE_OF_ROLE)}")
        async with self._db.transaction() as session:
            known = {row["name"] for row in await session.fetch(_Q.operators)}
            if name not in known:
                raise NotFound(f"there is no operator {name}")
            if not await session.execute(_Q.change_operator, name=name, role=role, disabled=disabled):
                raise Refused("conflict", f"{name} is the only admin; make another one first")
            await session.execute(_Q.end_sessions_of, name=name)

    async def _open_session(self, operator_id: UUID) -> str:
        secret = new_secret(SESSION)
        await self._db.execute(
            _Q.add_session,
            hash=digest(secret),
            operator_id=operator_id,
            csrf_token=new_secret(""),
            life=_SESSION_LIFE,
        )
        return secret

    async def _hash(self, password: str) -> str:
        if len(password) < _SHORTEST_PASSWORD:
            raise Invalid("password", f"must have at least {_SHORTEST_PASSWORD} characters")
        return await asyncio.to_thread(self._hasher.hash, password)

    async def _verify(self, stored: str, password: str) -> bool:
        try:
            return await asyncio.to_thread(self._hasher.verify, stored, password)
        except (VerificationError, InvalidHashError):
            return False

    async def tidy(self) -> None:
        await self._db.execute(_Q.forget_old)


@cache
def _nobody() -> str:
    """A hash of nothing anybody knows, for names that nobody has; made at need, it takes a while."""
    return PasswordHasher().hash(new_secret(""))
