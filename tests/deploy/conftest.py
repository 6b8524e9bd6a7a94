from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from tests.dashboard.conftest import browser, settings, site

__all__ = ["browser", "settings", "site"]


@pytest.fixture
async def spare(server_url: str) -> AsyncIterator[str]:
    """A name for a database and a role that a guide makes; both are dropped in the end."""
    name = f"spare_{uuid4().hex}"
    yield name
    connection = await asyncpg.connect(server_url)
    await connection.execute(f"drop database if exists {name} with (force)")
    await connection.execute(f"drop role if exists {name}")
    await connection.close()
