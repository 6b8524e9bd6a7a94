"""Passwords as argon2 hashes, made and checked by few threads at a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from opilio.access.secrets import new_secret
from opilio.errors import Invalid, Refused

SHORTEST = 10
# A hash takes 64 MiB and 30 to 100 ms of a processor. Without a bound, strangers at the login page could fill the memory.
_AT_ONCE = 2
_MOST_WAITING = 20


class Passwords:
    """Hashes and verifies; who comes when too many wait is told to try again."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        if len(password) < SHORTEST:
            raise Invalid("password", "must have at least %(n)s characters", n=SHORTEST)
        async with self._slot():
            return await asyncio.to_thread(self._hasher.hash, password)

    async def verify(self, stored: str | None, password: str) -> bool:
        """Without a stored hash it takes as long and says no: how long it takes must not tell which names exist."""
        async with self._slot():
            return await asyncio.to_thread(self._verify, stored, password)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        if self._waiting >= _MOST_WAITING:
            raise Refused("unavailable", "too many logins at once; try again in a moment", {"retry_after": 2})
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._slots.release()

    def _verify(self, stored: str | None, password: str) -> bool:
        try:
            return self._hasher.verify(stored or _hash_of_nothing(), password) and stored is not None
        except (VerificationError, InvalidHashError):
            return False


@cache
def _hash_of_nothing() -> str:
    return PasswordHasher().hash(new_secret(""))
