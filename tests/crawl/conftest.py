"""Fixtures of the crawl tests: a farm on a fresh database, and a clock that the test moves."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from opilio.adapters.postgres import Database
from opilio.clock import FixedClock
from opilio.runtime.bootstrap import wire
from opilio.runtime.settings import load_settings
from tests.crawl.farm import Farm, FarmMaker


@pytest.fixture
def clock() -> FixedClock:
    # Whole seconds, so that what is told in a message can be compared.
    return FixedClock(datetime.now(UTC).replace(microsecond=0))


@pytest.fixture
def farm_with(database: Database, database_url: str, clock: FixedClock, tmp_path: Path) -> FarmMaker:
    """A farm with settings of its own; several of them are several processes on one database."""

    def make(**settings: Any) -> Farm:
        wanted = load_settings(
            data_dir=tmp_path, database_url=database_url, **({"schedule_jitter": 0.0} | settings)
        )
        return Farm(wire(wanted, database, clock), clock)

    return make


@pytest.fixture
async def farm(farm_with: FarmMaker) -> AsyncIterator[Farm]:
    """A farm without limits; whatever a test did, the audit finds nothing afterwards."""
    farm = farm_with()
    yield farm
    await farm.audit()
