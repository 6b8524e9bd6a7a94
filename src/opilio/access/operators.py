"""Operators: the people who use the dashboard, their login links, passwords and sessions."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from opilio import audit
from opilio.access.identity import SCOPE_OF_ROLE, Operator
from opilio.access.passwords import Passwords
from opilio.access.secrets import LINK, SESSION, digest, new_secret
from opilio.adapters.postgres import Database, Row, Session, load_queries
from opilio.errors import Invalid, NotFound, Refused
from opilio.logs import get_logger

_SQL = load_queries("opilio.access")
_LINK_LIFE = timedelta(minutes=30)
_SESSION_LIFE = timedelta(days=14)
_log = get_logger(__name__)


class Operators:
    """Invites, logs in and out, changes roles and passwords; each change writes its audit row."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._passwords = Passwords()

    async def list(self) -> list[Row]:
        return await self._db.fetch(_SQL.list_operators)

    async def has_password(self) -> bool:
        """Whether any operator has chosen a password yet."""
        return bool(await self._db.value(_SQL.has_password))

    # ── inviting ─────────────────────────────────────────────────────────────────────────────────

    async def invite(self, name: str = "admin", role: str = "admin", *, by: str = "system") -> str:
        """Adds an operator, or takes the one of that name, and returns the secret of a login link."""
        if not 1 <= len(name) <= 100 or not name.isprintable():
            raise Invalid("name", "must be 1 to 100 printable characters")
        _check_role(role)
        async with self._db.transaction() as session:
            operator_id = await session.value(_SQL.add_operator, name=name, role=role)
            await audit.record(session, by, "operator.invite", name, {"role": role})
            return await self._add_link(session, operator_id)

    async def login_link(self, name: str, *, by: str = "system") -> str:
        """The secret of a login link for an existing operator; on a fresh database `admin` is added."""
        async with self._db.transaction() as session:
            row = await session.row(_SQL.find_operator, name=name)
            if row is None and (name != "admin" or await session.value(_SQL.has_operators)):
                raise NotFound(
                    "there is no enabled operator %(name)s; `opilio login --name %(name)s --create --role ROLE` adds one",
                    name=name,
                )
            operator_id = (
                row["operator_id"] if row else await session.value(_SQL.add_operator, name=name, role="admin")
            )
            await audit.record(session, by, "login.link", name)
            return await self._add_link(session, operator_id)

    async def _add_link(self, session: Session, operator_id: UUID) -> str:
        secret = new_secret(LINK)
        await session.execute(
            _SQL.add_login_link, hash=digest(secret), operator_id=operator_id, life=_LINK_LIFE
        )
        return secret

    async def owner_of_link(self, secret: str) -> str | None:
        """The name of the operator whose link this is, while it can be used."""
        row = await self._db.row(_SQL.find_login_link, hash=digest(secret))
        return None if row is None else str(row["name"])

    async def use_link(self, secret: str, password: str, *, address: str = "") -> str:
        """Sets the password, ends every other login of the operator, and returns a new session."""
        if await self.owner_of_link(secret) is None:  # before the password is hashed: that is expensive
            raise _link_refused()
        hashed = await self._passwords.hash(password)
        async with self._db.transaction() as session:
            row = await session.row(_SQL.use_login_link, hash=digest(secret))
            if row is None:
                raise _link_refused()
            await self._store_password(session, row, hashed, kept=None, address=address)
            return await self._open_session(session, row, address)

    # ── logging in and out ───────────────────────────────────────────────────────────────────────

    async def log_in(self, name: str, password: str, *, address: str = "") -> str:
        """Returns the secret of a new session."""
        row = await self._db.row(_SQL.find_operator, name=name)
        correct = await self._passwords.verify(row["password_hash"] if row else None, password)
        if row is None or not correct:
            _log.warning("login.failed", name=name, address=address)
            await audit.record(self._db, "anonymous", "login.failed", name, {"address": address})
            raise Refused("unauthorized", "the name or the password is wrong")
        async with self._db.transaction() as session:
            return await self._open_session(session, row, address)

    async def session(self, secret: str) -> Operator | None:
        row = await self._db.row(_SQL.find_session, hash=digest(secret))
        if row is None:
            return None
        return Operator(f"operator:{row['name']}", SCOPE_OF_ROLE[row["role"]], row["csrf_token"])

    async def log_out(self, secret: str) -> None:
        async with self._db.transaction() as session:
            name = await session.value(_SQL.end_session, hash=digest(secret))
            if name is not None:
                await audit.record(session, f"operator:{name}", "logout", name)

    async def sessions(self, secret: str) -> Sequence[Row]:
        """The sessions of a session's operator, newest first; `is_this` marks the one that asks."""
        return await self._db.fetch(_SQL.list_sessions, hash=digest(secret))

    async def log_out_others(self, secret: str) -> int:
        """Ends every other session of the operator; answers how many."""
        async with self._db.transaction() as session:
            row = await session.row(_SQL.find_session, hash=digest(secret))
            if row is None:
                return 0
            ended = await session.execute(
                _SQL.end_other_sessions, operator_id=row["operator_id"], kept=digest(secret)
            )
            name = row["name"]
            await audit.record(session, f"operator:{name}", "logout.others", name, {"sessions": ended})
            return ended

    async def _open_session(self, session: Session, row: Row, address: str) -> str:
        secret, name = new_secret(SESSION), row["name"]
        await session.execute(
            _SQL.add_session,
            hash=digest(secret),
            operator_id=row["operator_id"],
            csrf_token=new_secret(""),
            life=_SESSION_LIFE,
        )
        await audit.record(session, f"operator:{name}", "login", name, {"address": address})
        _log.info("login.succeeded", name=name, address=address)
        return secret

    # ── changing ─────────────────────────────────────────────────────────────────────────────────

    async def change_password(self, secret: str, current: str, new: str, *, address: str = "") -> None:
        """Changes the password of a session's operator; this session stays, all others end."""
        row = await self._db.row(_SQL.find_session, hash=digest(secret))
        if row is None or not await self._passwords.verify(row["password_hash"], current):
            raise Invalid("current_password", "is wrong")
        hashed = await self._passwords.hash(new)
        async with self._db.transaction() as session:
            await self._store_password(session, row, hashed, kept=digest(secret), address=address)

    async def _store_password(
        self, session: Session, row: Row, hashed: str, *, kept: bytes | None, address: str
    ) -> None:
        operator_id: Any = row["operator_id"]
        await session.execute(_SQL.set_password, operator_id=operator_id, password_hash=hashed)
        await session.execute(_SQL.end_other_sessions, operator_id=operator_id, kept=kept)
        await session.execute(_SQL.cancel_login_links, operator_id=operator_id)
        name = row["name"]
        await audit.record(session, f"operator:{name}", "password.change", name, {"address": address})

    async def change(
        self, name: str, *, role: str | None = None, disabled: bool | None = None, by: str = "system"
    ) -> None:
        """Another role, or disabled or enabled; one enabled admin must remain."""
        if role is not None:
            _check_role(role)
        async with self._db.transaction() as session:
            known = {row["name"] for row in await session.fetch(_SQL.list_operators)}
            if name not in known:
                raise NotFound("there is no operator %(name)s", name=name)
            if not await session.execute(_SQL.change_operator, name=name, role=role, disabled=disabled):
                raise Refused(
                    "conflict", "%(name)s is the only admin; make another operator admin first", name=name
                )
            await session.execute(_SQL.end_sessions_of_disabled, name=name)
            await audit.record(session, by, "operator.change", name, {"role": role, "disabled": disabled})

    async def delete_expired_logins(self) -> None:
        await self._db.execute(_SQL.delete_expired_logins)


def _check_role(role: str) -> None:
    if role not in SCOPE_OF_ROLE:
        raise Invalid("role", "must be one of %(roles)s", roles=", ".join(SCOPE_OF_ROLE))


def _link_refused() -> Refused:
    return Refused(
        "unauthorized",
        "this login link was used already or is older than 30 minutes; `opilio login` prints a new one",
    )
